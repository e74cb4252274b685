package plugin

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Moment is the value of a field of type time: nanoseconds since the Unix epoch.
type Moment int64

// Value is a field of a result: a uint64, int64, float64, Moment, bool or string, or, of a field
// that repeats, a []any of them. Fields that repeat together have as many values each.
type Value struct {
	Name  string
	Value any
	Unit  string
}

// Repeats returns how many of the last fields repeat.
func (d *Doc) Repeats() int {
	n := 0
	for n < len(d.Result) && d.Result[len(d.Result)-1-n].Repeat {
		n++
	}
	return n
}

// Render reads a result by the fields that the module declares. A module that declares none gives
// one field of bytes.
func (d *Doc) Render(result []byte) ([]Value, error) {
	if len(d.Result) == 0 {
		return []Value{{Name: "bytes", Value: result}}, nil
	}
	once := len(d.Result) - d.Repeats()
	out := make([]Value, len(d.Result))
	var err error
	for i := range d.Result {
		f := &d.Result[i]
		out[i].Name, out[i].Unit = f.Name, f.Unit
		if i >= once {
			out[i].Value = []any{}
			continue
		}
		if out[i].Value, result, err = d.take(f, result); err != nil {
			return nil, err
		}
	}
	for len(result) > 0 && once < len(d.Result) {
		for i := once; i < len(d.Result); i++ {
			var v any
			if v, result, err = d.take(&d.Result[i], result); err != nil {
				return nil, err
			}
			out[i].Value = append(out[i].Value.([]any), v)
		}
	}
	if len(result) != 0 {
		return nil, fmt.Errorf("result of %s has %d bytes more than its fields", d.Name,
			len(result))
	}
	return out, nil
}

// take reads a field from the start of src.
func (d *Doc) take(f *Field, src []byte) (v any, rest []byte, err error) {
	if len(src) < 8 {
		return nil, nil, fmt.Errorf("result of %s ends early: %d bytes are left for field %s",
			d.Name, len(src), f.Name)
	}
	bits, rest := binary.LittleEndian.Uint64(src), src[8:]
	switch f.Type {
	case Bool:
		if bits > 1 {
			return nil, nil, fmt.Errorf("result of %s: field %s is %d, want 0 or 1", d.Name,
				f.Name, bits)
		}
	case Text:
		if bits > uint64(len(rest)) || (bits+7)&^7 > uint64(len(rest)) {
			return nil, nil, fmt.Errorf("result of %s: field %s says it has %d bytes, %d are left",
				d.Name, f.Name, bits, len(rest))
		}
		text := strings.ToValidUTF8(string(rest[:bits]), "\uFFFD")
		return text, rest[(bits+7)&^7:], nil
	}
	return value(f.Type, bits), rest, nil
}

// value is 8 bytes as a type says.
func value(kind string, bits uint64) any {
	switch kind {
	case F64:
		return math.Float64frombits(bits)
	case I64:
		return int64(bits)
	case Time:
		return Moment(bits)
	case Bool:
		return bits != 0
	}
	return bits
}
