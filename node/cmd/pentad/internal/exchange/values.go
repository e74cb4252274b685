package exchange

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// Kind is what the cells of a column are.
type Kind uint8

// Kinds.
const (
	Other  Kind = 0 // nothing that is read
	Int    Kind = 1
	Float  Kind = 2
	Text   Kind = 3
	Binary Kind = 4
	Time   Kind = 5 // ns since the Unix epoch
	Bool   Kind = 6
)

// Value is a column of numbers or texts that payloads are decoded into. A payload that is none has
// no value there.
type Value struct {
	Name   string
	Kind   Kind // Int, Float or Text
	kind   string
	size   int // of a number; 0: the whole payload is text
	offset int
	exact  bool // the number is the whole payload
	of     func(payload []byte) (Decoded, bool)
}

// Decoded is what a payload has in a column that its caller decodes: Int, Float or Text.
type Decoded struct {
	Int   int64
	Float float64
	Text  string
}

// NewDecoded is the column of what a function finds in payloads. It is called with the payloads of
// a batch that is written.
func NewDecoded(name string, kind Kind, of func(payload []byte) (Decoded, bool)) Value {
	return Value{Name: name, Kind: kind, size: 8, of: of}
}

// sizes of the numbers that payloads hold; text has none.
var sizes = map[string]int{"f64": 8, "f32": 4, "i64": 8, "i32": 4, "u32": 4, "text": 0}

// NewValue is the column of payloads that are each one number or text.
func NewValue(kind string) (Value, error) {
	v, err := NewField("value", kind, 0)
	v.exact = true
	return v, err
}

// NewField is the column of the numbers that lie at an offset in payloads.
func NewField(name, kind string, offset int) (Value, error) {
	size, ok := sizes[kind]
	v := Value{Name: name, Kind: Int, kind: kind, size: size, offset: offset}
	switch {
	case !ok || offset < 0:
		return v,
			fmt.Errorf("type %q at offset %d is not decoded; use f64, f32, i64, i32, u32 or text",
				kind, offset)
	case kind[0] == 'f':
		v.Kind = Float
	case kind == "text":
		v.Kind = Text
	}
	return v, nil
}

// number returns the bytes of the number in a payload.
func (v *Value) number(payload []byte) ([]byte, bool) {
	if v.exact && len(payload) != v.size || len(payload)-v.size < v.offset {
		return nil, false
	}
	return payload[v.offset : v.offset+v.size], true
}

// Int decodes a whole number.
func (v *Value) Int(payload []byte) (int64, bool) {
	if v.of != nil {
		d, ok := v.of(payload)
		return d.Int, ok
	}
	b, ok := v.number(payload)
	if !ok {
		return 0, false
	}
	switch v.kind {
	case "i64":
		return int64(binary.LittleEndian.Uint64(b)), true
	case "i32":
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	}
	return int64(binary.LittleEndian.Uint32(b)), true
}

// Float decodes a float.
func (v *Value) Float(payload []byte) (float64, bool) {
	if v.of != nil {
		d, ok := v.of(payload)
		return d.Float, ok
	}
	b, ok := v.number(payload)
	switch {
	case !ok:
		return 0, false
	case v.kind == "f64":
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), true
}

// Text decodes a text, which may alias the payload.
func (v *Value) Text(payload []byte) ([]byte, bool) {
	if v.of != nil {
		d, ok := v.of(payload)
		return []byte(d.Text), ok
	}
	return payload, utf8.Valid(payload)
}

// appendNumber appends the digits of a number, and reports whether JSON has such a number. Nothing
// is appended when there is no value.
func (v *Value) appendNumber(dst, payload []byte) (_ []byte, inJSON bool) {
	if v.Kind == Int {
		if n, ok := v.Int(payload); ok {
			return strconv.AppendInt(dst, n, 10), true
		}
		return dst, true
	}
	f, ok := v.Float(payload)
	if !ok {
		return dst, true
	}
	return strconv.AppendFloat(dst, f, 'g', -1, v.size*8), !math.IsNaN(f) && !math.IsInf(f, 0)
}
