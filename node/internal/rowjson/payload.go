// Package rowjson has the JSON of records: how answers show records, groups, differences and
// versions, and how posted records are read.
//
// It knows nothing of where rows come from or go to. Its main types are [Row] and [Writer]; it
// starts no goroutines.
package rowjson

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// PayloadType is how JSON shows payloads.
type PayloadType uint8

const (
	// Base64 shows payloads as they are.
	Base64 PayloadType = 0
	F64    PayloadType = 1
	I64    PayloadType = 2
	Text   PayloadType = 3
	F32    PayloadType = 4
	I32    PayloadType = 5
	U32    PayloadType = 6
)

// Payloads says how the payloads of each quantity are shown and read: a PayloadType all alike,
// [Declared] as their quantities say.
type Payloads interface {
	Of(moid int32) PayloadType
}

// Of returns t.
func (t PayloadType) Of(int32) PayloadType { return t }

// Declared has the types of declared quantities, by moid. All others are base64.
type Declared map[int32]PayloadType

// DeclaredAs returns the types of quantities that are numbers or text.
func DeclaredAs(all []plugin.Quantity) Declared {
	d := Declared{}
	for i := range all {
		if t, ok := payloadTypes[all[i].Type]; ok {
			d[all[i].MOID] = t
		}
	}
	return d
}

// Of returns the declared type of a quantity.
func (d Declared) Of(moid int32) PayloadType { return d[moid] }

var payloadTypes = map[string]PayloadType{"base64": Base64, plugin.F64: F64, plugin.I64: I64,
	plugin.Text: Text, plugin.F32: F32, plugin.I32: I32, plugin.U32: U32}

// ParsePayloadType parses the parameter type.
func ParsePayloadType(name string) (PayloadType, error) {
	t, ok := payloadTypes[name]
	if !ok {
		return 0, params.Bad("type", fmt.Errorf("%q is not f64, f32, i64, i32, u32, text or base64",
			params.Clip(name)))
	}
	return t, nil
}

// Value decodes a payload by its type, or returns nil if it does not have that form.
func (t PayloadType) Value(payload []byte) any {
	switch {
	case t == Text && utf8.Valid(payload):
		return string(payload)
	case t == F64 && len(payload) == 8:
		return finite(math.Float64frombits(binary.LittleEndian.Uint64(payload)))
	case t == F32 && len(payload) == 4:
		return finite(float64(math.Float32frombits(binary.LittleEndian.Uint32(payload))))
	case t == I64 && len(payload) == 8:
		return int64(binary.LittleEndian.Uint64(payload))
	case t == I32 && len(payload) == 4:
		return int32(binary.LittleEndian.Uint32(payload))
	case t == U32 && len(payload) == 4:
		return binary.LittleEndian.Uint32(payload)
	case t == Base64:
		return base64.StdEncoding.EncodeToString(payload)
	default:
		return nil
	}
}

// finite returns a number, or the text of one that JSON does not have.
func finite(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return f
}

// forJSON converts values that JSON cannot represent to text: some numbers, and times.
func forJSON(v any) any {
	switch v := v.(type) {
	case float64:
		return finite(v)
	case plugin.Moment:
		return record.FormatNs(int64(v))
	case []any:
		for i := range v {
			v[i] = forJSON(v[i])
		}
	}
	return v
}
