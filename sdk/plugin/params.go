package plugin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

func (p *Param) validate() error {
	number := slices.Contains([]string{F64, I64, U64}, p.Type)
	switch {
	case !number && p.Type != Enum && p.Type != Text:
		return fmt.Errorf("has type %q", p.Type)
	case !label(p.Name) || p.Unit != "" && !label(p.Unit):
		return fmt.Errorf("name and unit are up to %d bytes of printable UTF-8", maxLabelBytes)
	case (p.Type == Enum) != (len(p.Enum) > 0):
		return fmt.Errorf("an enum has values, and nothing else has; it has type %q", p.Type)
	case !number && p.Min+p.Max != "":
		return fmt.Errorf("has type %q, and only numbers have min and max", p.Type)
	case p.Type != Text && p.Size != 0 || p.Type == Text && (p.Size < 1 || p.Size > maxTextBytes):
		return fmt.Errorf("a text has a size, its most bytes, of 1 to %d, and nothing else has; "+
			"it has type %q and size %d", maxTextBytes, p.Type, p.Size)
	}
	bounds := *p
	bounds.Min, bounds.Max = "", ""
	for _, bound := range []string{p.Min, p.Max} {
		if bound == "" {
			continue
		}
		if _, err := bounds.encode(bound); err != nil {
			return fmt.Errorf("min or max: %w", err)
		}
	}
	if p.Min != "" && p.Max != "" && p.below(p.bits(p.Max), p.Min) {
		return fmt.Errorf("min %s is above max %s", p.Min, p.Max)
	}
	if p.Default != "" {
		if _, err := p.encode(p.Default); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	return nil
}

// encode checks a value and returns its 8 bytes; a text has none.
func (p *Param) encode(value string) (uint64, error) {
	switch p.Type {
	case Text:
		return 0, p.checkText(value)
	case Enum:
		i := slices.Index(p.Enum, value)
		if i < 0 {
			return 0, fmt.Errorf("parameter %s: %q is not one of %s", p.Name, value,
				strings.Join(p.Enum, ", "))
		}
		return uint64(i), nil
	}
	bits, err := p.number(value)
	if err != nil {
		var number *strconv.NumError
		if errors.As(err, &number) {
			err = number.Err
		}
		return 0, fmt.Errorf("parameter %s: %q is not a %s: %w", p.Name, value, p.Type, err)
	}
	return bits, p.checkBounds(bits)
}

func (p *Param) number(value string) (uint64, error) {
	switch p.Type {
	case F64:
		f, err := strconv.ParseFloat(value, 64)
		return math.Float64bits(f), err
	case I64:
		n, err := strconv.ParseInt(value, 10, 64)
		return uint64(n), err
	}
	return strconv.ParseUint(value, 10, 64)
}

// bits is number for a bound of a document that was checked.
func (p *Param) bits(bound string) uint64 {
	bits, err := p.number(bound)
	if err != nil {
		panic("BUG: a bound was not checked: " + err.Error())
	}
	return bits
}

// below reports whether a value is below a bound. What is not a number is below every one.
func (p *Param) below(bits uint64, bound string) bool {
	switch p.Type {
	case F64:
		return !(math.Float64frombits(bits) >= math.Float64frombits(p.bits(bound)))
	case I64:
		return int64(bits) < int64(p.bits(bound))
	}
	return bits < p.bits(bound)
}

// above is below, the other way round.
func (p *Param) above(bits uint64, bound string) bool {
	switch p.Type {
	case F64:
		return !(math.Float64frombits(bits) <= math.Float64frombits(p.bits(bound)))
	case I64:
		return int64(bits) > int64(p.bits(bound))
	}
	return bits > p.bits(bound)
}

func (p *Param) checkBounds(bits uint64) error {
	unit := ""
	if p.Unit != "" {
		unit = " " + p.Unit
	}
	switch {
	case p.Min != "" && p.below(bits, p.Min):
		return fmt.Errorf("parameter %s: %v is below the least, %s%s", p.Name,
			value(p.Type, bits), p.Min, unit)
	case p.Max != "" && p.above(bits, p.Max):
		return fmt.Errorf("parameter %s: %v is above the greatest, %s%s", p.Name,
			value(p.Type, bits), p.Max, unit)
	}
	return nil
}

func (p *Param) checkText(text string) error {
	if len(text) > p.Size || !utf8.ValidString(text) {
		return fmt.Errorf("parameter %s: a text of %d bytes, want UTF-8 of at most %d", p.Name,
			len(text), p.Size)
	}
	return nil
}

// EncodeParams writes parameters as a module takes them: 8 bytes for every declared one in order,
// then the texts.
//
// Errors: a value that is missing, unknown, of the wrong type or out of bounds, by name.
func (d *Doc) EncodeParams(values map[string]string) ([]byte, error) {
	for name := range values {
		if !slices.ContainsFunc(d.Params, func(p Param) bool { return p.Name == name }) {
			return nil, fmt.Errorf("plugin %s has no parameter %q; it has: %s", d.Name, name,
				d.names())
		}
	}
	var out, texts []byte
	for i := range d.Params {
		p := &d.Params[i]
		value, ok := values[p.Name]
		if !ok {
			value = p.Default
		}
		if value == "" {
			return nil, fmt.Errorf("plugin %s needs parameter %s (%s)", d.Name, p.Name, p.Type)
		}
		bits, err := p.encode(value)
		if err != nil {
			return nil, err
		}
		if p.Type == Text {
			bits = uint64(8*len(d.Params)+len(texts)) | uint64(len(value))<<32
			texts = appendPadded(texts, value)
		}
		out = binary.LittleEndian.AppendUint64(out, bits)
	}
	return append(out, texts...), nil
}

func appendPadded(dst []byte, text string) []byte {
	dst = append(dst, text...)
	for len(dst)%8 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// CheckParams holds parameters that a program wrote against the document: no parameters, where all
// have defaults, or what EncodeParams could have written. A module that declares none takes any.
//
// Errors: a value that is out of bounds, by name.
func (d *Doc) CheckParams(src []byte) error {
	if len(d.Params) == 0 || len(src) == 0 &&
		!slices.ContainsFunc(d.Params, func(p Param) bool { return p.Default == "" }) {
		return nil
	}
	slots := 8 * len(d.Params)
	if len(src) < slots {
		return fmt.Errorf("plugin %s takes %d parameters, 8 bytes each; there are %d bytes",
			d.Name, len(d.Params), len(src))
	}
	texts := src[slots:]
	for i := range d.Params {
		p := &d.Params[i]
		bits := binary.LittleEndian.Uint64(src[8*i:])
		var err error
		switch p.Type {
		case Text:
			texts, err = p.takeText(bits, len(src)-len(texts), texts)
		case Enum:
			if bits >= uint64(len(p.Enum)) {
				err = fmt.Errorf("parameter %s: value %d of %d", p.Name, bits, len(p.Enum))
			}
		default:
			err = p.checkBounds(bits)
		}
		if err != nil {
			return err
		}
	}
	if len(texts) > 0 {
		return fmt.Errorf("%d bytes follow the parameters of plugin %s", len(texts), d.Name)
	}
	return nil
}

// takeText checks a text that must be the next one of texts, which start at an offset.
func (p *Param) takeText(bits uint64, offset int, texts []byte) (rest []byte, err error) {
	size := bits >> 32
	padded := (size + 7) &^ 7
	if uint64(uint32(bits)) != uint64(offset) || padded > uint64(len(texts)) {
		return nil, fmt.Errorf("parameter %s: a text of %d bytes at %d, want it at %d, where %d "+
			"bytes are left", p.Name, size, uint32(bits), offset, len(texts))
	}
	for _, zero := range texts[size:padded] {
		if zero != 0 {
			return nil, fmt.Errorf("parameter %s: the bytes behind the text are not zero", p.Name)
		}
	}
	return texts[padded:], p.checkText(string(texts[:size]))
}

func (d *Doc) names() string {
	if len(d.Params) == 0 {
		return "none"
	}
	names := make([]string, 0, len(d.Params))
	for _, p := range d.Params {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
