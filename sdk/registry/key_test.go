package registry

import (
	"slices"
	"testing"
)

func TestKey(t *testing.T) {
	d := &Description{Name: "t7", Type: "meter", Group: "oulu/b7/f3", Retired: true,
		Place:      &Place{Lat: 1, Lon: 2, Alt: 7, HasAlt: true},
		Attributes: map[string]Value{"floor": Number(3), "owner": Text("acme")}}
	f := func(text string, want Value) {
		t.Helper()
		k, err := ParseKey(text)
		if err != nil || k.String() != text {
			t.Fatalf("%s is the key %v, %v", text, k, err)
		}
		if v, ok := k.Of(d); v != want || ok != (want != Value{}) {
			t.Errorf("%s is %v, %v; want %v", text, v, ok, want)
		}
	}
	f("name", Text("t7"))
	f("type", Text("meter"))
	f("group", Text("oulu/b7/f3"))
	f("group[1]", Text("oulu"))
	f("group[2]", Text("oulu/b7"))
	f("group[3]", Text("oulu/b7/f3"))
	f("group[4]", Value{})
	f("group[16]", Value{})
	f("retired", Bool(true))
	f("alt", Number(7))
	f("floor", Number(3))
	f("missing", Value{})
	for _, text := range []string{"", "group[0]", "group[17]", "group[", "group[]", "group[+1]",
		"group[1", "group[1]x", "floor[1]", "mid", "cid", "records", "a b", "within"} {
		if k, err := ParseKey(text); err == nil {
			t.Errorf("%q is the key %v", text, k)
		}
	}
}

func TestValueOrder(t *testing.T) {
	values := []Value{{}, Bool(false), Bool(true), Number(-2), Number(10), Text("10"), Text("a")}
	mixed := slices.Clone(values)
	slices.Reverse(mixed)
	slices.SortFunc(mixed, Value.Compare)
	if !slices.Equal(mixed, values) {
		t.Errorf("sorted %v, want %v", mixed, values)
	}
	for _, v := range values {
		got, rest, err := ParseValueBytes(append(AppendValue(nil, v), 9))
		if err != nil || got != v || len(rest) != 1 {
			t.Errorf("%v was read as %v, %v, %v", v, got, rest, err)
		}
	}
}

func FuzzParseValueBytes(f *testing.F) {
	f.Add(AppendValue(nil, Text("acme")))
	f.Add(AppendValue(nil, Number(2)))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, src []byte) {
		v, rest, err := ParseValueBytes(src)
		if err != nil {
			return
		}
		if again := append(AppendValue(nil, v), rest...); string(again) != string(src) {
			t.Errorf("%x became %x", src, again)
		}
	})
}
