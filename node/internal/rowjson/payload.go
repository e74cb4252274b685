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
)

// ParsePayloadType parses the parameter type; empty is base64.
func ParsePayloadType(name string) (PayloadType, error) {
	switch name {
	case "", "base64":
		return Base64, nil
	case "f64":
		return F64, nil
	case "i64":
		return I64, nil
	case "text":
		return Text, nil
	default:
		return 0, params.Bad("type", fmt.Errorf("%q is not f64, i64, text or base64",
			params.Clip(name)))
	}
}

// Value decodes a payload by its type, or returns nil if it does not have that form.
func (t PayloadType) Value(payload []byte) any {
	switch {
	case t == Text && utf8.Valid(payload):
		return string(payload)
	case t == F64 && len(payload) == 8:
		f := math.Float64frombits(binary.LittleEndian.Uint64(payload))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
		return f
	case t == I64 && len(payload) == 8:
		return int64(binary.LittleEndian.Uint64(payload))
	case t == Base64:
		return base64.StdEncoding.EncodeToString(payload)
	default:
		return nil
	}
}

// forJSON converts values that JSON cannot represent to text: some numbers, and times.
func forJSON(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	case plugin.Moment:
		return record.FormatNs(int64(v))
	case []any:
		for i := range v {
			v[i] = forJSON(v[i])
		}
	}
	return v
}
