// Package plugin is the contract between a pentad node and the modules that users upload: the
// document in which a module describes its parameters and results, and how both are written as
// bytes. ABI.md describes the calls between host and guest.
//
// It imports the standard library only, runs nothing and starts no goroutines. Its main type is
// [Doc].
package plugin

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MaxDocBytes bounds the document of a module.
const MaxDocBytes = 64 << 10

// Limits of a document.
const (
	maxParams = 32
	maxFields = 64
)

// Types of parameters and result fields. All take 8 bytes, little-endian; an enum is the number of
// its value.
const (
	F64  = "f64"
	I64  = "i64"
	U64  = "u64"
	Enum = "enum"
)

// Param is a parameter of a module.
type Param struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Enum    []string `json:"enum,omitempty"`    // values of an enum
	Default string   `json:"default,omitempty"` // empty: the parameter must be given
	Help    string   `json:"help,omitempty"`
}

// Field is a field of a result.
type Field struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Repeat bool   `json:"repeat,omitempty"` // the last field only: as many as the result holds
}

// Doc describes a module to people and to programs that ask people.
type Doc struct {
	Name    string   `json:"name"`
	Version string   `json:"version,omitempty"`
	About   string   `json:"about,omitempty"`
	Payload []string `json:"payload,omitempty"` // accepted types of payloads, for people
	Params  []Param  `json:"params,omitempty"`
	Result  []Field  `json:"result,omitempty"`
}

// ParseDoc reads a document that a module's author wrote.
func ParseDoc(src []byte) (*Doc, error) {
	if len(src) > MaxDocBytes {
		return nil, fmt.Errorf("document of %d bytes, at most %d", len(src), MaxDocBytes)
	}
	d := new(Doc)
	if err := json.Unmarshal(src, d); err != nil {
		return nil, fmt.Errorf("document: %w", err)
	}
	if len(d.Params) > maxParams || len(d.Result) > maxFields {
		return nil, fmt.Errorf("document has %d parameters and %d fields, at most %d and %d",
			len(d.Params), len(d.Result), maxParams, maxFields)
	}
	for i, p := range d.Params {
		if !slices.Contains([]string{F64, I64, U64, Enum}, p.Type) || p.Name == "" ||
			(p.Type == Enum) != (len(p.Enum) > 0) {
			return nil, fmt.Errorf("document: parameter %d (%q) has type %q", i, p.Name, p.Type)
		}
		if p.Default != "" {
			if _, err := p.encode(p.Default); err != nil {
				return nil, fmt.Errorf("document: default of %w", err)
			}
		}
	}
	for i, f := range d.Result {
		if !slices.Contains([]string{F64, I64, U64}, f.Type) || f.Name == "" ||
			f.Repeat && i != len(d.Result)-1 {
			return nil, fmt.Errorf("document: field %d (%q) has type %q", i, f.Name, f.Type)
		}
	}
	return d, nil
}

func (p *Param) encode(value string) (uint64, error) {
	var bits uint64
	var err error
	switch p.Type {
	case F64:
		var f float64
		f, err = strconv.ParseFloat(value, 64)
		bits = math.Float64bits(f)
	case I64:
		var n int64
		n, err = strconv.ParseInt(value, 10, 64)
		bits = uint64(n)
	case U64:
		bits, err = strconv.ParseUint(value, 10, 64)
	default:
		i := slices.Index(p.Enum, value)
		if i < 0 {
			return 0, fmt.Errorf("parameter %s: %q is not one of %s", p.Name, value,
				strings.Join(p.Enum, ", "))
		}
		bits = uint64(i)
	}
	if err != nil {
		var number *strconv.NumError
		if errors.As(err, &number) {
			err = number.Err
		}
		return 0, fmt.Errorf("parameter %s: %q is not a %s: %w", p.Name, value, p.Type, err)
	}
	return bits, nil
}

// EncodeParams writes parameters as a module takes them: every declared one in order, 8 bytes each.
//
// Errors: a value that is missing, unknown or of the wrong type, by name.
func (d *Doc) EncodeParams(values map[string]string) ([]byte, error) {
	for name := range values {
		if !slices.ContainsFunc(d.Params, func(p Param) bool { return p.Name == name }) {
			return nil, fmt.Errorf("plugin %s has no parameter %q; it has: %s", d.Name, name,
				d.names())
		}
	}
	var out []byte
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
		out = binary.LittleEndian.AppendUint64(out, bits)
	}
	return out, nil
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

// Value is a field of a result: a uint64, int64 or float64, or a slice of one of them.
type Value struct {
	Name  string
	Value any
}

// Render reads a result by the fields that the module declares. A module that declares none gives
// one field of bytes.
func (d *Doc) Render(result []byte) ([]Value, error) {
	if len(d.Result) == 0 {
		return []Value{{"bytes", result}}, nil
	}
	var out []Value
	for _, f := range d.Result {
		if f.Repeat {
			if len(result)%8 != 0 {
				return nil, fmt.Errorf("result of %s: %d bytes are left for %s", d.Name,
					len(result), f.Name)
			}
			out = append(out, Value{f.Name, repeated(f.Type, result)})
			return out, nil
		}
		if len(result) < 8 {
			return nil, fmt.Errorf("result of %s ends before field %s", d.Name, f.Name)
		}
		out = append(out, Value{f.Name, number(f.Type, result)})
		result = result[8:]
	}
	if len(result) != 0 {
		return nil, fmt.Errorf("result of %s has %d bytes more than its fields", d.Name,
			len(result))
	}
	return out, nil
}

func number(kind string, src []byte) any {
	bits := binary.LittleEndian.Uint64(src)
	switch kind {
	case F64:
		return math.Float64frombits(bits)
	case I64:
		return int64(bits)
	default:
		return bits
	}
}

func repeated(kind string, src []byte) []any {
	out := make([]any, 0, len(src)/8)
	for ; len(src) > 0; src = src[8:] {
		out = append(out, number(kind, src))
	}
	return out
}
