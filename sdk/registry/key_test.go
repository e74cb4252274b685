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

// TestKeys reads several keys, and writes values of them.
func TestKeys(t *testing.T) {
	keys, err := ParseKeys("group[2],type,floor")
	if err != nil || len(keys) != 3 || keys[0].String() != "group[2]" {
		t.Errorf("keys %v, %v", keys, err)
	}
	for _, text := range []string{"", "type,", "type,type", "type, floor", "a,b,c,d,e,f,g,h,i"} {
		if keys, err := ParseKeys(text); err == nil {
			t.Errorf("%q are the keys %v", text, keys)
		}
	}
	for _, values := range [][]Value{{{}}, {Text("a")}, {Text("a"), {}}, {Bool(true), Number(2)}} {
		got, rest, err := ParseValuesBytes(append(AppendValues(nil, values), 9))
		if err != nil || !slices.Equal(got, values) || len(rest) != 1 {
			t.Errorf("%v were read as %v, %v, %v", values, got, rest, err)
		}
	}
	if CompareValues([]Value{Number(1), Text("b")}, []Value{Number(1), Text("a")}) <= 0 {
		t.Error("values are not in the order of the second key")
	}
}

func FuzzParseValuesBytes(f *testing.F) {
	f.Add(AppendValues(nil, []Value{Text("acme"), {}, Number(2)}))
	f.Add(AppendValues(nil, []Value{Bool(true)}))
	f.Add([]byte{9, 1, 0})
	f.Fuzz(func(t *testing.T, src []byte) {
		values, rest, err := ParseValuesBytes(src)
		if err != nil {
			return
		}
		if again := append(AppendValues(nil, values), rest...); string(again) != string(src) {
			t.Errorf("%x became %x", src, again)
		}
	})
}
