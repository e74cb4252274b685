package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Types of payloads, beside those of parameters. A struct has fields at fixed offsets.
const (
	F32    = "f32"
	I32    = "i32"
	U32    = "u32"
	Bytes  = "bytes"
	Struct = "struct"
	// anyPayload in a document: the plugin does not care.
	anyPayload = "any"
)

// Limits of a quantity.
const (
	maxQuantityName   = 64
	maxQuantityFields = 64
	maxFieldOffset    = 32 << 20 // a payload is not larger
)

// Quantity says what the records of one moid measure, and what their payloads are.
type Quantity struct {
	MOID   int32           `json:"moid"`
	Name   string          `json:"name"`
	Unit   string          `json:"unit,omitempty"`
	Type   string          `json:"type"`
	Fields []QuantityField `json:"fields,omitempty"` // of a struct

	// Modulus is where the register of a meter begins again: 100000 for five digits; 0: it does
	// not, or it is not known. A struct has none.
	Modulus float64 `json:"modulus,omitempty"`
}

// QuantityField is a field of a struct: where it starts in the payload and what is there.
type QuantityField struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Offset uint32 `json:"offset"`
}

func (q *Quantity) label() string { return fmt.Sprintf("%d (%s)", q.MOID, q.Name) }

// Check says what is wrong with a quantity.
func (q *Quantity) Check() error {
	scalars := []string{F64, F32, I64, I32, U32, Text, Bytes}
	if q.MOID < 0 || !shortText(q.Name) || q.Name == "" || !shortText(q.Unit) {
		return fmt.Errorf("quantity %d: name %q and unit %q must be printable, of at most %d "+
			"bytes, and the name not empty", q.MOID, q.Name, q.Unit, maxQuantityName)
	}
	if q.Type != Struct && !slices.Contains(scalars, q.Type) {
		return fmt.Errorf("quantity %s: type %q is not one of %s, struct", q.label(), q.Type,
			strings.Join(scalars, ", "))
	}
	if (q.Type == Struct) != (len(q.Fields) > 0) || len(q.Fields) > maxQuantityFields {
		return fmt.Errorf("quantity %s: %d fields; a struct has 1 to %d and others have none",
			q.label(), len(q.Fields), maxQuantityFields)
	}
	if err := q.checkModulus(); err != nil {
		return fmt.Errorf("quantity %s: modulus %v: %w", q.label(), q.Modulus, err)
	}
	for i, f := range q.Fields {
		named := func(o QuantityField) bool { return o.Name == f.Name }
		switch {
		case f.Name == "" || !shortText(f.Name) || strings.ContainsAny(f.Name, "=,:"):
			return fmt.Errorf("quantity %s: %q is not the name of a field", q.label(), f.Name)
		case slices.IndexFunc(q.Fields, named) != i:
			return fmt.Errorf("quantity %s: field %s occurs twice", q.label(), f.Name)
		case !slices.Contains(scalars, f.Type):
			return fmt.Errorf("quantity %s: type %q of field %s is not one of %s", q.label(),
				f.Type, f.Name, strings.Join(scalars, ", "))
		case f.Offset > maxFieldOffset:
			return fmt.Errorf("quantity %s: offset %d of field %s, at most %d", q.label(), f.Offset,
				f.Name, maxFieldOffset)
		}
	}
	return nil
}

// checkModulus says why a register of the type cannot begin again there: its greatest number is
// below the modulus.
func (q *Quantity) checkModulus() error {
	most, number := map[string]float64{F64: math.MaxFloat64, Text: math.MaxFloat64,
		F32: math.MaxFloat32, I64: 1 << 63, I32: 1 << 31, U32: 1 << 32}[q.Type]
	switch m := q.Modulus; {
	case m == 0:
		return nil
	case q.Type == Struct:
		return errors.New("fields have none; give it to the plugin as a parameter")
	case !number:
		return fmt.Errorf("payloads are %s, not numbers; leave it out", q.Type)
	case !(m > 0 && m <= most):
		return fmt.Errorf("not in 0 to %v, which %s can hold; use e.g. 100000 for a register of "+
			"five digits, or 0 for none", most, q.Type)
	}
	return nil
}

// CheckName says that the name reads as numbers, which are moids wherever a quantity is asked for.
// It is no part of Check, as declarations of earlier versions may have such names.
func (q *Quantity) CheckName() error {
	if strings.Trim(q.Name, "0123456789+-.,=* ") != "" {
		return nil
	}
	return fmt.Errorf("quantity %d: the name %q reads as moids, which numbers, ranges and lists "+
		"of them always are; give it a letter, e.g. energy", q.MOID, q.Name)
}

// CheckFields says which two fields of a quantity share bytes of the payload. It is no part of
// Check, as declarations of earlier versions may have such fields.
func (q *Quantity) CheckFields() error {
	fields := slices.Clone(q.Fields)
	slices.SortStableFunc(fields, func(a, b QuantityField) int {
		return cmp.Compare(a.Offset, b.Offset)
	})
	for i := 1; i < len(fields); i++ {
		f, next := fields[i-1], fields[i]
		size, fixed := map[string]uint32{F64: 8, I64: 8, F32: 4, I32: 4, U32: 4}[f.Type]
		if end := f.Offset + size; !fixed || next.Offset < end {
			until := fmt.Sprintf("is of %d bytes, up to %d", size, end)
			if !fixed {
				until = "is the rest of the payload"
			}
			return fmt.Errorf("quantity %s: field %s begins at byte %d and %s, but field %s "+
				"begins at %d; give each field its own bytes", q.label(), f.Name, f.Offset, until,
				next.Name, next.Offset)
		}
	}
	return nil
}

func shortText(s string) bool { return len(s) <= maxQuantityName && OneLine(s) }

// layout is where the number lies that a plugin reads.
type layout struct {
	kind   string
	offset uint32
}

// Fit fits the parameters of a call to the quantities of a query, which asks for the moids in
// half-open ranges, none for all. A parameter field, unless the plugin has one of that name,
// becomes type and offset of this field; a type or modulus that is not given becomes that of the
// quantity. With unchecked, what the plugin reads need not be what the quantity is.
//
// Errors: a field that a quantity lacks; quantities that differ in where the number is, or in a
// modulus that the plugin takes; a type that the plugin does not read or that is not that of the
// quantity.
func (d *Doc) Fit(
	values map[string]string, all []Quantity, moids [][2]int64, unchecked bool,
) error {
	field := ""
	if !d.has("field") {
		field = values["field"]
		delete(values, "field")
	}
	if field != "" && (!d.has("type") || !d.has("offset")) {
		return fmt.Errorf("plugin %s has no parameters type and offset to read a field by", d.Name)
	}
	if field != "" && (values["type"] != "" || values["offset"] != "") {
		return fmt.Errorf("field %s replaces type and offset; leave them out", field)
	}
	if field == "" && !d.has("type") && !d.has("modulus") && d.readsAny() {
		return nil // it does not matter what the quantities are
	}
	asked, err := askedFor(all, moids, field)
	if err != nil || len(asked) == 0 {
		return err
	}
	if err := d.fitModulus(values, asked, unchecked); err != nil {
		return err
	}
	var at layout
	for i := range asked {
		one, ok, err := asked[i].layout(field)
		if err != nil || !ok {
			return err
		}
		if i == 0 {
			at = one
		} else if one != at && field == "" && unchecked {
			return nil
		} else if one != at {
			return fmt.Errorf("quantities %s and %s differ: %s at %d, %s at %d; ask for one of "+
				"them by its moid", asked[0].label(), asked[i].label(), at.kind, at.offset,
				one.kind, one.offset)
		}
	}
	if !unchecked {
		if err := d.checkPayload(&asked[0], at, values["type"]); err != nil {
			return err
		}
	}
	if field != "" {
		values["type"], values["offset"] = at.kind, strconv.FormatUint(uint64(at.offset), 10)
	} else if values["type"] == "" && d.takes("type", at.kind) {
		values["type"] = at.kind
	}
	return nil
}

// fitModulus sets the parameter modulus to what the quantities are declared with, unless the caller
// has given one.
func (d *Doc) fitModulus(values map[string]string, asked []Quantity, unchecked bool) error {
	if _, given := values["modulus"]; given || !d.has("modulus") {
		return nil
	}
	first := &asked[0]
	for i := range asked {
		switch q := &asked[i]; {
		case q.Modulus == first.Modulus:
		case unchecked:
			return nil
		default:
			return fmt.Errorf("quantities %s and %s differ: modulus %v and %v; ask for one of "+
				"them by its moid, or give the parameter modulus", first.label(), q.label(),
				first.Modulus, q.Modulus)
		}
	}
	if first.Modulus != 0 {
		values["modulus"] = strconv.FormatFloat(first.Modulus, 'f', -1, 64)
	}
	return nil
}

// FitValues fits the parameters of a call to records whose payloads are values of one type: a
// parameter type that is not given becomes that type.
//
// Errors: a type that the plugin does not read, or that is not the given one.
func (d *Doc) FitValues(values map[string]string, kind string) error {
	given := values["type"]
	switch {
	case d.takes("type", kind) && given == "":
		values["type"] = kind
	case d.takes("type", kind) && given != kind && d.takes("type", given):
		return fmt.Errorf("the plugin reads numbers of type %s, and the values of the records are "+
			"%s", given, kind)
	case !d.takes("type", kind) && !d.readsAny() && !slices.Contains(d.Payload, kind) &&
		!slices.Contains(d.Payload, Bytes):
		return fmt.Errorf("the plugin reads %s, and the values of the records are %s",
			strings.Join(d.Payload, ", "), kind)
	}
	return nil
}

func (d *Doc) readsAny() bool {
	return len(d.Payload) == 0 || slices.Contains(d.Payload, anyPayload)
}

func (d *Doc) has(param string) bool {
	return slices.ContainsFunc(d.Params, func(p Param) bool { return p.Name == param })
}

func (d *Doc) takes(param, value string) bool {
	return slices.ContainsFunc(d.Params, func(p Param) bool {
		return p.Name == param && slices.Contains(p.Enum, value)
	})
}

func (d *Doc) checkPayload(q *Quantity, at layout, given string) error {
	const way = "; to run it anyway, ask for it unchecked"
	if !d.readsAny() && !slices.Contains(d.Payload, at.kind) {
		return fmt.Errorf("plugin %s reads %s, and quantity %s is %s"+way, d.Name,
			strings.Join(d.Payload, ", "), q.label(), at.kind)
	}
	if given != "" && given != at.kind && d.takes("type", given) {
		return fmt.Errorf("type is %s, and quantity %s is %s"+way, given, q.label(), at.kind)
	}
	return nil
}

// askedFor returns the quantities with a moid in one of the ranges. A field cannot be found in a
// moid that is asked for by itself and not declared.
func askedFor(all []Quantity, moids [][2]int64, field string) ([]Quantity, error) {
	if len(moids) == 0 {
		moids = [][2]int64{{0, 1 << 31}}
	}
	var out []Quantity
	for _, r := range moids {
		before := len(out)
		for i := range all {
			if moid := int64(all[i].MOID); r[0] <= moid && moid < r[1] {
				out = append(out, all[i])
			}
		}
		if field != "" && len(out) == before && r[1] == r[0]+1 {
			return nil, fmt.Errorf("field %s: quantity %d is not declared; declare it with "+
				"pentad quantity set", field, r[0])
		}
	}
	if field != "" && len(out) == 0 {
		return nil, fmt.Errorf("field %s: none of the quantities is declared; declare "+
			"them with pentad quantity set", field)
	}
	return out, nil
}

// layout returns where a field lies, or the number of a payload that is one; not of a struct.
func (q *Quantity) layout(field string) (at layout, ok bool, err error) {
	if field == "" {
		return layout{kind: q.Type}, q.Type != Struct, nil
	}
	names := make([]string, len(q.Fields))
	for i, f := range q.Fields {
		if f.Name == field {
			return layout{f.Type, f.Offset}, true, nil
		}
		names[i] = f.Name
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return at, false, fmt.Errorf("quantity %s has no field %s; it has: %s", q.label(), field,
		strings.Join(names, ", "))
}
