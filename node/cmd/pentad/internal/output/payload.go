package output

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/quantity"
)

// PayloadTypes is the list for help and errors.
const PayloadTypes = "f64, f32, i64, i32, u32, text, hex or base64"

// otherTypes are what types are called elsewhere.
var otherTypes = map[string]string{"double": "f64", "float": "f64", "float64": "f64",
	"number": "f64", "real": "f32", "float32": "f32", "int": "i64", "integer": "i64",
	"int64": "i64", "long": "i64", "bigint": "i64", "int32": "i32", "uint32": "u32",
	"string": "text", "str": "text", "utf8": "text", "varchar": "text"}

// ParsePayloadType reads a payload type by its name.
func ParsePayloadType(name string) (quantity.Type, error) {
	t, ok := quantity.Parse(name)
	if other := otherTypes[strings.ToLower(name)]; !ok && other != "" {
		return 0, fmt.Errorf("type %q is unknown; did you mean %s?", name, other)
	}
	if !ok {
		return 0, fmt.Errorf("type %q is unknown; use %s", name, PayloadTypes)
	}
	return t, nil
}

// PayloadColumn returns the column that payloads of a type stand in: "value" where the bytes have a
// meaning, "payload" where they stand for themselves.
func PayloadColumn(t quantity.Type) Column {
	switch t {
	case quantity.Text:
		return Column{Name: "value"}
	case quantity.Hex:
		return Column{Name: "payload_hex"}
	case quantity.Base64:
		return Column{Name: "payload"}
	}
	return Column{Name: "value", Right: true}
}

// ColumnType is the type of the payloads of a column of [PayloadColumn] that is not of values.
func ColumnType(name string) quantity.Type {
	if name == PayloadColumn(quantity.Hex).Name {
		return quantity.Hex
	}
	return quantity.Base64
}

// Payload renders a payload. One that cannot be of this type becomes null and its base64.
func Payload(t quantity.Type, payload []byte) Value {
	switch v := t.Decode(payload).(type) {
	case float64:
		return Float(v)
	case float32:
		return Float(shortest(v))
	case int64:
		return Int(v)
	case int32:
		return Int(v)
	case uint32:
		return Int(v)
	case string:
		return Text(v)
	}
	switch t {
	case quantity.Hex:
		return Text(hex.EncodeToString(payload))
	case quantity.Base64:
		return Text(base64.StdEncoding.EncodeToString(payload))
	}
	return opaque(payload)
}

// RawPayload renders a payload of a raw type among values: in JSON as the member that its own
// column would be, in CSV with the name of its type in front, as put reads it.
func RawPayload(t quantity.Type, payload []byte) Value {
	v := Payload(t, payload)
	v.kind, v.number = kindRawPayload, int64(t)
	return v
}

// shortest is the float64 that is written with as few digits as identify a float32.
func shortest(f float32) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	if err != nil {
		return float64(f)
	}
	return v
}
