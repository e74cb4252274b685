package quantity

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// AppendFields appends the payload of a struct whose fields are texts, where text returns that of a
// field. A field without one is NaN if it is a float, and empty at the end of the payload. Bytes
// between fields are zero.
//
// Errors: none of the fields, or an integer, has a text; a text is not of the type of its field.
func AppendFields(
	dst []byte, q *plugin.Quantity, text func(field string) (string, bool),
) ([]byte, error) {
	if err := q.CheckFields(); err != nil {
		return dst, err
	}
	fields := slices.Clone(q.Fields)
	slices.SortFunc(fields, func(a, b plugin.QuantityField) int {
		return int(a.Offset) - int(b.Offset)
	})
	from, some := len(dst), false
	for i := range fields {
		f := &fields[i]
		t, _ := Parse(f.Type) // else bytes, as base64
		s, has := text(f.Name)
		some = some || has
		switch {
		case has:
		case t == F64 || t == F32:
			s = "NaN"
		case t.size() > 0:
			return dst[:from], fmt.Errorf("the field %s of %s has no value", f.Name, Label(q))
		}
		for len(dst)-from < int(f.Offset) {
			dst = append(dst, 0)
		}
		var err error
		if dst, err = t.Append(dst, s); err != nil {
			return dst[:from], fmt.Errorf("the field %s of %s: %w", f.Name, Label(q), err)
		}
	}
	if !some {
		return dst[:from], fmt.Errorf("no field of %s has a value; it has %s", Label(q),
			fieldNames(q))
	}
	return dst, nil
}

func fieldNames(q *plugin.Quantity) string {
	names := make([]string, len(q.Fields))
	for i := range q.Fields {
		names[i] = q.Fields[i].Name
	}
	return strings.Join(names, ", ")
}

// Struct returns the declaration of a quantity that is a struct, nil of another one.
func Struct(types Types, moid int32) *plugin.Quantity {
	d, ok := types.(Declared)
	if !ok {
		return nil
	}
	if q := d.Quantity(moid); q != nil && q.Type == plugin.Struct {
		return q
	}
	return nil
}

// AppendObject appends the payload of a struct that is a JSON object of its fields: numbers and
// texts; null, and a member that is not there, is none.
func AppendObject(dst []byte, q *plugin.Quantity, src []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := strictjson.Unmarshal(src, &members); err != nil {
		return dst, err
	}
	texts := make(map[string]string, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		at := slices.IndexFunc(q.Fields, func(f plugin.QuantityField) bool {
			return f.Name == name
		})
		if at < 0 {
			var names []string
			for i := range q.Fields {
				names = append(names, q.Fields[i].Name)
			}
			return dst, fmt.Errorf("%s has no field %q%s; it has %s", Label(q),
				excerpt.Of(name, 60), excerpt.DidYouMean(name, names), fieldNames(q))
		}
		text, has, err := memberText(members[name])
		if err != nil {
			return dst, fmt.Errorf("the field %s of %s: %w", name, Label(q), err)
		}
		if has {
			texts[name] = text
		}
	}
	return AppendFields(dst, q, func(field string) (string, bool) {
		text, has := texts[field]
		return text, has
	})
}

// AppendShown appends the payload of a struct as the JSON object that AppendObject reads, and
// reports whether that gives the same payload again: bytes that are no field may say more.
func AppendShown(dst []byte, q *plugin.Quantity, payload []byte) (object []byte, same bool) {
	from := len(dst)
	out := append(dst, '{')
	for i := range q.Fields {
		f := &q.Fields[i]
		t, _ := Parse(f.Type)
		var cell []byte
		if at := int(f.Offset); at < len(payload) {
			cell = payload[at:]
			if size := t.size(); size > 0 {
				cell = cell[:min(size, len(cell))]
			}
		}
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(f.Name)
		out = append(append(out, name...), ':')
		switch v := t.Decode(cell).(type) {
		case nil:
			if !t.Raw() || err != nil {
				return dst, false
			}
			out = append(base64.StdEncoding.AppendEncode(append(out, '"'), cell), '"')
		case float64:
			out = appendFloat(out, v, 64)
		case float32:
			out = appendFloat(out, float64(v), 32)
		default: // a text, or an integer
			text, err := json.Marshal(v)
			if err != nil {
				return dst, false
			}
			out = append(out, text...)
		}
	}
	out = append(out, '}')
	again, err := AppendObject(nil, q, out[from:])
	return out, err == nil && bytes.Equal(again, payload)
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "null"...)
	case math.IsInf(f, 0):
		return append(strconv.AppendFloat(append(dst, '"'), f, 'g', -1, bits), '"')
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}

func memberText(value json.RawMessage) (text string, has bool, err error) {
	switch c := value[0]; {
	case c == 'n':
		return "", false, nil
	case c == '"':
		err = json.Unmarshal(value, &text)
		return text, true, err
	case c == '-' || c >= '0' && c <= '9':
		return string(value), true, nil
	}
	return "", false, errors.New(excerpt.Of(string(value), 40) + " is neither a number nor a text")
}
