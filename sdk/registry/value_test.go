package registry

import (
	"math"
	"strings"
	"testing"
)

// TestParseValue: no digit of a number is changed silently.
func TestParseValue(t *testing.T) {
	f := func(text string, want Value) {
		t.Helper()
		if got := ParseValue(text); got != want {
			t.Errorf("%s is %v of kind %d, want %v of kind %d", text, got, got.Kind(), want,
				want.Kind())
		}
	}
	f("3", Number(3))
	f("-2.5e3", Number(-2500))
	f("true", Bool(true))
	f(`"007"`, Text("007"))
	f("9007199254740992", Number(1<<53))
	f("9007199254740993", Text("9007199254740993"))
	f("-9007199254740993", Text("-9007199254740993"))
	f("9007199254740992.5", Text("9007199254740992.5"))
	f("10000000000000000", Number(1e16))
	f("123456789012345678901234567890", Text("123456789012345678901234567890"))
	f("1e300", Number(1e300))
	f(strings.Repeat("9", 400), Text(strings.Repeat("9", 400))) // beyond the greatest number
	for _, n := range []float64{1 << 53, 1e22, math.MaxFloat64, -1e17} {
		f(Number(n).String(), Number(n))
	}
	s, err := ParseSelector("serial=9007199254740993")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"9007199254740993": true, "9007199254740992": false} {
		d := &Description{Attributes: map[string]Value{"serial": ParseValue(text)}}
		if s.Match(d) != want {
			t.Errorf("%s meets %v: %v", text, s, !want)
		}
	}
}

func TestReservedKeys(t *testing.T) {
	for _, key := range []string{"metadata", "replaces", "replaced_by", "and", "name", "lat"} {
		d := &Description{Attributes: map[string]Value{key: Number(1)}}
		if _, err := Append(nil, d); err == nil || !strings.Contains(err.Error(), key+"_") {
			t.Errorf("%s: %v", key, err)
		}
	}
	before := Description{Attributes: map[string]Value{"metadatb": Number(1)}}
	payload, err := Append(nil, &before)
	if err != nil {
		t.Fatal(err)
	}
	old := []byte(strings.Replace(string(payload), "metadatb", "metadata", 1))
	if d, err := Parse(old); err != nil || len(d.Attributes) != 1 {
		t.Errorf("what was stored before: %v, %v", d, err)
	}
}
