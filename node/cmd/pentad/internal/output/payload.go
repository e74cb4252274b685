package output

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
)

// PayloadType says how the bytes of a payload are written and read.
type PayloadType uint8

// Payload types. Numbers are 8 bytes, little-endian.
const (
	Base64 PayloadType = 0
	Hex    PayloadType = 1
	UTF8   PayloadType = 2
	F64    PayloadType = 3
	I64    PayloadType = 4
)

// PayloadTypes is the list for help and errors.
const PayloadTypes = "f64, i64, text, hex or base64"

var payloadTypes = [...]string{Base64: "base64", Hex: "hex", UTF8: "text", F64: "f64", I64: "i64"}

// ParsePayloadType reads a payload type by its name.
func ParsePayloadType(name string) (PayloadType, error) {
	t := slices.Index(payloadTypes[:], name)
	if t < 0 {
		return 0, fmt.Errorf("type %q is unknown; use %s", name, PayloadTypes)
	}
	return PayloadType(t), nil
}

// String returns the name of a payload type.
func (t PayloadType) String() string { return payloadTypes[t] }

// Column returns the column that payloads of this type stand in: "value" where the bytes have a
// meaning, "payload" where they stand for themselves.
func (t PayloadType) Column() Column {
	switch t {
	case F64, I64:
		return Column{Name: "value", Right: true}
	case UTF8:
		return Column{Name: "value"}
	case Hex:
		return Column{Name: "payload_hex"}
	}
	return Column{Name: "payload"}
}

// Value renders a payload. One that cannot be of this type becomes null and its base64.
func (t PayloadType) Value(payload []byte) Value {
	switch {
	case t == F64 && len(payload) == 8:
		return Float(math.Float64frombits(binary.LittleEndian.Uint64(payload)))
	case t == I64 && len(payload) == 8:
		return Int(int64(binary.LittleEndian.Uint64(payload)))
	case t == UTF8 && utf8.Valid(payload):
		return Text(string(payload))
	case t == Hex:
		return Text(hex.EncodeToString(payload))
	case t == Base64:
		return Text(base64.StdEncoding.EncodeToString(payload))
	}
	return opaque(payload)
}

// maxExactFloat is 2^53: beyond it not every whole number is a float64.
const maxExactFloat = 1 << 53

var errNotWhole = errors.New("is not an integer within ±2^53")

// AppendPayload appends the payload that a text stands for. An i64 may be written as a float
// when it is whole (4e+05).
func (t PayloadType) AppendPayload(dst []byte, text string) ([]byte, error) {
	switch t {
	case F64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return dst, fmt.Errorf("%q is not an f64", clip(text))
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), nil
	case I64:
		n, err := parseWhole(text)
		if err != nil {
			return dst, err
		}
		return binary.LittleEndian.AppendUint64(dst, uint64(n)), nil
	case UTF8:
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

func parseWhole(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n, nil
	}
	f, floatErr := strconv.ParseFloat(text, 64)
	switch {
	case floatErr != nil:
		return 0, fmt.Errorf("%q is not an i64", clip(text))
	case f != math.Trunc(f) || math.Abs(f) > maxExactFloat:
		return 0, fmt.Errorf("%q %w", clip(text), errNotWhole)
	}
	return int64(f), nil
}

func clip(text string) string { return excerpt.Of(text, 40) }
