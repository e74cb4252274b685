// Package quantity says how the payloads of each quantity are shown and read: by a type that the
// caller names, or as the quantity of each moid is declared.
//
// It does not know where declarations are kept, nor in which form a value is written: JSON, a table
// or CSV. Its main types are [Type] and [Declared]; it starts no goroutines.
package quantity

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// Type is how the bytes of a payload are shown and read. Numbers are little-endian.
type Type uint8

const (
	// Base64 and Hex show payloads as they are.
	Base64 Type = 0
	F64    Type = 1
	I64    Type = 2
	Text   Type = 3
	F32    Type = 4
	I32    Type = 5
	U32    Type = 6
	Hex    Type = 7
)

var names = [...]string{Base64: "base64", F64: plugin.F64, I64: plugin.I64, Text: plugin.Text,
	F32: plugin.F32, I32: plugin.I32, U32: plugin.U32, Hex: "hex"}

// Parse returns the type of a name, false if there is none.
func Parse(name string) (Type, bool) {
	t := slices.Index(names[:], name)
	return Type(max(t, 0)), t >= 0
}

// String returns the name of a type.
func (t Type) String() string { return names[t] }

// Raw reports whether the type shows the bytes and not what they mean.
func (t Type) Raw() bool { return t == Base64 || t == Hex }

// size is the size of a number in bytes, 0 of other types.
func (t Type) size() int {
	switch t {
	case F64, I64:
		return 8
	case F32, I32, U32:
		return 4
	}
	return 0
}

// Decode returns what a payload means: a float64, float32, int64, int32, uint32 or string. It
// returns nil for a payload that does not have the form of the type, and for a type that is raw.
func (t Type) Decode(payload []byte) any {
	if size := t.size(); size > 0 && len(payload) != size {
		return nil
	}
	little := binary.LittleEndian
	switch t {
	case F64:
		return math.Float64frombits(little.Uint64(payload))
	case F32:
		return math.Float32frombits(little.Uint32(payload))
	case I64:
		return int64(little.Uint64(payload))
	case I32:
		return int32(little.Uint32(payload))
	case U32:
		return little.Uint32(payload)
	case Text:
		if utf8.Valid(payload) {
			return string(payload)
		}
	}
	return nil
}

// Append appends the payload that a text stands for. An integer may be written as a float when it
// is whole (4e+05).
func (t Type) Append(dst []byte, text string) ([]byte, error) {
	little := binary.LittleEndian
	switch t {
	case F64:
		f, err := parseFloat(text, t, 64)
		return little.AppendUint64(dst, math.Float64bits(f)), err
	case F32:
		f, err := parseFloat(text, t, 32)
		return little.AppendUint32(dst, math.Float32bits(float32(f))), err
	case I64:
		n, err := parseWhole(text, t, math.MinInt64, math.MaxInt64)
		return little.AppendUint64(dst, uint64(n)), err
	case I32:
		n, err := parseWhole(text, t, math.MinInt32, math.MaxInt32)
		return little.AppendUint32(dst, uint32(n)), err
	case U32:
		n, err := parseWhole(text, t, 0, math.MaxUint32)
		return little.AppendUint32(dst, uint32(n)), err
	case Text:
		if !utf8.ValidString(text) {
			return dst, fmt.Errorf("%q is not UTF-8", clip(text))
		}
		return append(dst, text...), nil
	case Hex:
		b, err := hex.DecodeString(text)
		if err != nil {
			return dst, fmt.Errorf("%q is not hex", clip(text))
		}
		return append(dst, b...), nil
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return dst, fmt.Errorf("%q is not base64", clip(text))
	}
	return append(dst, b...), nil
}

func parseFloat(text string, t Type, bits int) (float64, error) {
	f, err := strconv.ParseFloat(text, bits)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is beyond the range of an %s", clip(text), t)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not an %s", clip(text), t)
	}
	return f, nil
}

// maxExactFloat is 2^53: beyond it not every whole number is a float64.
const maxExactFloat = 1 << 53

var errNotWhole = errors.New("is not an integer within ±2^53")

func parseWhole(text string, t Type, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, floatErr := strconv.ParseFloat(text, 64)
		switch {
		case floatErr != nil:
			return 0, fmt.Errorf("%q is not %s", clip(text), t.article())
		case f != math.Trunc(f) || math.Abs(f) > maxExactFloat:
			return 0, fmt.Errorf("%q %w", clip(text), errNotWhole)
		}
		n = int64(f)
	}
	if n < least || n > most {
		return 0, fmt.Errorf("%q is not %s, %d to %d", clip(text), t.article(), least, most)
	}
	return n, nil
}

// article is the name of a type with its article.
func (t Type) article() string {
	if t == U32 {
		return "a " + t.String()
	}
	return "an " + t.String()
}

func clip(text string) string { return excerpt.Of(text, 40) }
