package quantity

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// Types says how the payloads of each quantity are shown and read: a [Type] all alike, [Declared]
// as their quantities are declared.
type Types interface {
	// Of returns the type of a quantity.
	Of(moid int32) Type
	// Check says why a payload does not fit its quantity, nil if it does.
	Check(moid int32, payload []byte) error
}

// Of returns t.
func (t Type) Of(int32) Type { return t }

// Check accepts every payload: the caller chose the type and not the declaration.
func (t Type) Check(int32, []byte) error { return nil }

// Declared has the declared quantities.
type Declared struct {
	other  Type
	byMOID map[int32]*declaration
}

type declaration struct {
	plugin.Quantity
	kind Type
	ends int // of the last number of a struct, in bytes
}

// NewDeclared returns the types of declared quantities. Those that are bytes or a struct are
// Base64; those that are not declared are of the type other.
func NewDeclared(all []plugin.Quantity, other Type) Declared {
	d := Declared{other: other, byMOID: make(map[int32]*declaration, len(all))}
	for _, q := range all {
		one := &declaration{Quantity: q}
		one.kind, _ = Parse(q.Type) // else Base64
		for _, f := range q.Fields {
			if t, ok := Parse(f.Type); ok {
				one.ends = max(one.ends, int(f.Offset)+t.size())
			}
		}
		d.byMOID[q.MOID] = one
	}
	return d
}

// String lists the types of declared quantities, and that of others: what decides how values are
// read. To declare a quantity as what it is read as makes no difference.
func (d Declared) String() string {
	text := ""
	for _, moid := range slices.Sorted(maps.Keys(d.byMOID)) {
		if q := d.byMOID[moid]; q.Type != d.other.String() {
			text += fmt.Sprintf("%d:%s,", moid, q.Type)
		}
	}
	return text + d.other.String()
}

// Of returns the type that a quantity is declared as.
func (d Declared) Of(moid int32) Type {
	if q, ok := d.byMOID[moid]; ok {
		return q.kind
	}
	return d.other
}

// Quantity returns the declaration of a moid, nil if there is none.
func (d Declared) Quantity(moid int32) *plugin.Quantity {
	if q, ok := d.byMOID[moid]; ok {
		return &q.Quantity
	}
	return nil
}

// Check says why a payload does not fit the declaration of its quantity. Bytes take every payload,
// and a struct each one that reaches to the end of its last number.
func (d Declared) Check(moid int32, payload []byte) error {
	q, ok := d.byMOID[moid]
	if !ok {
		return nil
	}
	switch size := q.kind.size(); {
	case size > 0 && len(payload) != size:
		return fmt.Errorf("the payload has %d bytes, and %s is %s, of %d bytes", len(payload),
			Label(&q.Quantity), q.kind, size)
	case len(payload) < q.ends:
		return fmt.Errorf("the payload has %d bytes, and the fields of %s end at byte %d",
			len(payload), Label(&q.Quantity), q.ends)
	case q.kind == Text && q.kind.Decode(payload) == nil:
		return fmt.Errorf("the payload is not UTF-8, and %s is text", Label(&q.Quantity))
	}
	return nil
}

// Read appends the payload that a text stands for, by the type of its quantity: of a struct its
// fields as a JSON object, or base64. An error names the declaration that the text does not fit.
func Read(dst []byte, types Types, moid int32, text string) ([]byte, error) {
	if q := Struct(types, moid); q != nil && strings.HasPrefix(text, "{") {
		return AppendObject(dst, q, []byte(text))
	}
	from := len(dst)
	out, err := types.Of(moid).Append(dst, text)
	if err != nil {
		return dst, fmt.Errorf("%w%s", err, Because(types, moid))
	}
	if err := types.Check(moid, out[from:]); err != nil {
		return dst, err
	}
	return out, nil
}

// Because says for an error what a quantity is declared as, nothing if it is not.
func Because(types Types, moid int32) string {
	d, ok := types.(Declared)
	if !ok || d.byMOID[moid] == nil {
		return ""
	}
	q, form := d.byMOID[moid], ""
	if q.Type == plugin.Struct {
		form = ", a JSON object of " + fieldNames(&q.Quantity)
	}
	return fmt.Sprintf("; %s is declared as %s%s", Label(&q.Quantity), q.Type, form)
}

// Label names a quantity in an error: quantity 7 (energy).
func Label(q *plugin.Quantity) string { return fmt.Sprintf("quantity %d (%s)", q.MOID, q.Name) }

// All returns the declarations, in no order.
func (d Declared) All() iter.Seq[*plugin.Quantity] {
	return func(yield func(*plugin.Quantity) bool) {
		for _, q := range d.byMOID {
			if !yield(&q.Quantity) {
				return
			}
		}
	}
}
