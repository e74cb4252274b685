package plugin

import (
	"maps"
	"math"
	"strings"
	"testing"
)

func meter() []Quantity {
	return []Quantity{
		{MOID: 1, Name: "energy", Unit: "kWh", Type: F64},
		{MOID: 2, Name: "temperature", Type: I64},
		{MOID: 3, Name: "phase 1", Type: Struct, Fields: []QuantityField{
			{"power", F32, 4}, {"voltage", I64, 8}, {"note", Text, 16}}},
		{MOID: 4, Name: "phase 2", Type: Struct, Fields: []QuantityField{
			{"power", F32, 4}, {"voltage", I64, 16}}},
		{MOID: 5, Name: "text", Type: Bytes},
		{MOID: 6, Name: "register", Type: F64, Modulus: 1e5},
		{MOID: 7, Name: "pulses", Type: F64, Modulus: 1 << 32},
	}
}

func at(moids ...int64) (out [][2]int64) {
	for _, m := range moids {
		out = append(out, [2]int64{m, m + 1})
	}
	return out
}

func TestFit(t *testing.T) {
	numbers := []string{F64, F32, I64}
	stats := &Doc{Name: "stats", Payload: numbers, Params: []Param{
		{Name: "type", Type: Enum, Enum: numbers, Default: F64},
		{Name: "offset", Type: U64, Default: "0"}}}
	count := &Doc{Name: "count", Payload: []string{"any"}}
	own := &Doc{Name: "own", Params: []Param{{Name: "field", Type: U64}}}
	f := func(d *Doc, given string, moids [][2]int64, unchecked bool, want string) {
		t.Helper()
		parse := func(text string) map[string]string {
			values := map[string]string{}
			for _, pair := range strings.Fields(text) {
				key, value, _ := strings.Cut(pair, "=")
				values[key] = value
			}
			return values
		}
		values := parse(given)
		err := d.Fit(values, meter(), moids, unchecked)
		if problem, bad := strings.CutPrefix(want, "! "); bad {
			if err == nil || !strings.Contains(err.Error(), problem) {
				t.Errorf("%s %v: %v, want %q", given, moids, err, problem)
			}
			return
		}
		if err != nil || !maps.Equal(values, parse(want)) {
			t.Errorf("%s %v: %v, %v, want %s", given, moids, values, err, want)
		}
	}
	f(stats, "", at(1), false, "type=f64")
	f(stats, "", at(2), false, "type=i64")
	f(stats, "", at(9), false, "")
	f(stats, "type=i64", at(9), false, "type=i64")
	f(stats, "type=f32", at(1), false, "! type is f32, and quantity 1 (energy) is f64")
	f(stats, "type=f32", at(1), true, "type=f32")
	f(stats, "", at(1, 2), false, "! quantities 1 (energy) and 2 (temperature) differ")
	f(stats, "", [][2]int64{{1, 3}}, true, "")
	f(stats, "", at(5), false, "! plugin stats reads f64, f32, i64, and quantity 5 (text) is bytes")
	f(stats, "", at(5), true, "")
	f(stats, "", at(3), false, "")
	f(stats, "offset=4", at(1), false, "offset=4 type=f64")
	f(stats, "field=power", at(3), false, "type=f32 offset=4")
	f(stats, "field=power", at(3, 4), false, "type=f32 offset=4")
	f(stats, "field=voltage", at(3, 4), false, "! differ: i64 at 8, i64 at 16; ask for one")
	f(stats, "field=voltage", at(3, 4), true, "! differ")
	f(stats, "field=note", at(3), false, "! f64, f32, i64, and quantity 3 (phase 1) is text")
	f(stats, "field=none", at(3), false, "! has no field none; it has: power, voltage, note")
	f(stats, "field=power", at(1), false, "! quantity 1 (energy) has no field power; it has: none")
	f(stats, "field=power", at(3, 9), false, "! quantity 9 is not declared")
	f(stats, "field=power", [][2]int64{{10, 20}}, false, "! none of the quantities is declared")
	f(stats, "field=power", nil, false, "! quantity 1 (energy) has no field")
	f(stats, "field=power type=f64", at(3), false, "! replaces type and offset")
	f(count, "field=power", at(3), false, "! no parameters type and offset")
	f(count, "", nil, true, "")
	f(count, "", nil, false, "") // whatever the quantities are
	f(count, "", at(5), false, "")
	f(own, "field=7", at(1), false, "field=7")
	delta := &Doc{Name: "delta", Payload: numbers, Params: []Param{
		{Name: "modulus", Type: F64, Default: "0"}}}
	f(delta, "", at(6), false, "modulus=100000")
	f(delta, "modulus=0", at(6), false, "modulus=0")
	f(delta, "", at(6, 7), false, "! differ: modulus 100000 and 4.294967296e+09; ask for one of")
	f(delta, "", at(1, 6), false, "! quantities 1 (energy) and 6 (register) differ: modulus 0 and")
	f(delta, "", at(6, 7), true, "")
	f(delta, "", at(6, 9), false, "modulus=100000") // 9 is not declared
	f(delta, "", at(1), false, "")
	f(&Doc{Params: delta.Params}, "", at(7), false, "modulus=4294967296")
	f(count, "", at(6), false, "")
}

func TestFitValues(t *testing.T) {
	stats := &Doc{Payload: []string{F64, Text},
		Params: []Param{{Name: "type", Type: "enum", Enum: []string{F64, Text}}}}
	f := func(d *Doc, given, kind, want, wrong string) {
		t.Helper()
		values := map[string]string{}
		if given != "" {
			values["type"] = given
		}
		text := ""
		if err := d.FitValues(values, kind); err != nil {
			text = err.Error()
		}
		if values["type"] != want || text != wrong {
			t.Errorf("%q for values of %s: %q, %s", given, kind, values["type"], text)
		}
	}
	f(stats, "", Text, Text, "")
	f(stats, "", F64, F64, "")
	f(stats, Text, Text, Text, "")
	f(stats, F64, Text, F64,
		"the plugin reads numbers of type f64, and the values of the records are text")
	f(stats, "f16", Text, "f16", "") // an error of the parameter
	f(stats, "", I32, "", "the plugin reads f64, text, and the values of the records are i32")
	f(&Doc{Payload: []string{F64}}, "", Text, "",
		"the plugin reads f64, and the values of the records are text")
	f(&Doc{Payload: []string{Bytes}}, "", Text, "", "")
	f(&Doc{}, "", Text, "", "")
}

func TestQuantityCheck(t *testing.T) {
	for _, q := range meter() {
		if err := q.Check(); err != nil {
			t.Errorf("%+v: %v", q, err)
		}
	}
	f := func(q Quantity, want string) {
		t.Helper()
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", q, err, want)
		}
	}
	f(Quantity{Type: F64}, "the name not empty")
	f(Quantity{Name: "a", MOID: -1, Type: F64}, "quantity -1")
	f(Quantity{Name: "a\n", Type: F64}, "printable")
	f(Quantity{Name: strings.Repeat("a", 65), Type: F64}, "at most 64")
	f(Quantity{Name: "a", Type: "f16"}, "not one of f64, f32")
	f(Quantity{Name: "a", Type: Struct}, "0 fields")
	f(Quantity{Name: "a", Type: F64, Fields: []QuantityField{{"b", F64, 0}}}, "1 fields")
	f(Quantity{Name: "a", Type: Struct, Fields: []QuantityField{{"b=", F64, 0}}},
		"not the name of a field")
	f(Quantity{Name: "a", Type: Struct, Fields: []QuantityField{{"b", Struct, 0}}}, "of field b")
	f(Quantity{Name: "a", Type: Struct, Fields: []QuantityField{{"b", F64, 1 << 30}}}, "offset")
	f(Quantity{Name: "a", Type: Struct, Fields: []QuantityField{{"b", F64, 0}, {"b", F64, 8}}},
		"twice")
	f(Quantity{Name: "a", Type: F64, Modulus: -1}, "not in 0 to")
	f(Quantity{Name: "a", Type: F64, Modulus: math.NaN()}, "not in 0 to")
	f(Quantity{Name: "a", Type: F64, Modulus: math.Inf(1)}, "modulus +Inf: not in 0 to")
	f(Quantity{Name: "a", Type: U32, Modulus: 1<<32 + 1}, "which u32 can hold; use e.g. 100000")
	f(Quantity{Name: "a", Type: I32, Modulus: 1 << 32}, "not in 0 to 2.147483648e+09, which i32")
	f(Quantity{Name: "a", Type: Bytes, Modulus: 1}, "payloads are bytes, not numbers")
	f(Quantity{Name: "a", Type: Struct, Modulus: 1, Fields: []QuantityField{{"b", F64, 0}}},
		"modulus 1: fields have none")
}
