package quantity

import (
	"errors"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
)

func TestAppendRefuses(t *testing.T) {
	f := func(kind Type, text, want string) {
		t.Helper()
		_, err := kind.Append(nil, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %q: error %v, want one with %q", kind, text, err, want)
		}
	}
	f(F64, "", `"" is not an f64`)
	f(F64, "1,5", "is not an f64")
	f(F64, "1e999", "is beyond the range of an f64")
	f(F32, "1e39", "is beyond the range of an f32")
	f(I64, "1.5", "is not an integer")
	f(I64, "NaN", "is not an integer")
	f(I64, "x", "is not an i64")
	f(I64, "9223372036854775808", "is not an integer")
	f(I32, "2147483648", "is not an i32, -2147483648 to 2147483647")
	f(U32, "-1", "is not a u32, 0 to 4294967295")
	f(Text, "\xff", "is not UTF-8")
	f(Hex, "0", "is not hex")
	f(Base64, "*", "is not base64")
	if _, err := I64.Append(nil, "1e17"); !errors.Is(err, errNotWhole) {
		t.Errorf("1e17: %v", err)
	}
}

func TestDeclared(t *testing.T) {
	d := NewDeclared([]plugin.Quantity{{MOID: 1, Name: "energy", Type: plugin.F64},
		{MOID: 2, Name: "remark", Type: plugin.Text}, {MOID: 3, Name: "image", Type: plugin.Bytes},
		{MOID: 4, Name: "phase", Type: plugin.Struct, Fields: []plugin.QuantityField{
			{Name: "power", Type: plugin.F32, Offset: 4}, {Name: "on", Type: plugin.I32}}}}, I64)
	f := func(moid int32, kind Type, payload, want string) {
		t.Helper()
		if got := d.Of(moid); got != kind {
			t.Errorf("quantity %d is %s, want %s", moid, got, kind)
		}
		got := ""
		if err := d.Check(moid, []byte(payload)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("quantity %d, payload %q: %q, want %q", moid, payload, got, want)
		}
	}
	f(1, F64, "12345678", "")
	f(1, F64, "1234", "the payload has 4 bytes, and quantity 1 (energy) is f64, of 8 bytes")
	f(1, F64, "123456789", "the payload has 9 bytes, and quantity 1 (energy) is f64, of 8 bytes")
	f(2, Text, "", "")
	f(2, Text, "\xff", "the payload is not UTF-8, and quantity 2 (remark) is text")
	f(3, Base64, "\xff", "")
	f(4, Base64, "12345678 and more", "")
	f(4, Base64, "1234567",
		"the payload has 7 bytes, and the fields of quantity 4 (phase) end at byte 8")
	f(5, I64, "anything", "")
	if err := F64.Check(1, nil); err != nil || F64.Of(2) != F64 {
		t.Error(err)
	}
}
