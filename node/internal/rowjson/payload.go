// Package rowjson has the JSON of records: how answers show records, groups, differences and
// versions, and how posted records are read.
//
// It knows nothing of where rows come from or go to. Its main types are [Row] and [Writer]; it
// starts no goroutines.
package rowjson

import (
	"fmt"
	"math"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// ParseType parses the parameter type.
func ParseType(name string) (quantity.Type, error) {
	t, ok := quantity.Parse(name)
	if !ok || t == quantity.Hex {
		return 0, params.Bad("type", fmt.Errorf("%q is not f64, f32, i64, i32, u32, text or base64",
			params.Clip(name)))
	}
	return t, nil
}

// value decodes a payload by its type, or returns nil if it does not have that form.
func value(t quantity.Type, payload []byte) any {
	switch v := t.Decode(payload).(type) {
	case float64:
		return finite(v)
	case float32:
		return finite(float64(v))
	default:
		return v
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
