package plugin

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

const sample = `{"name":"h","params":[{"name":"lo","type":"f64"},{"name":"n","type":"u64","default":"4"},
{"name":"kind","type":"enum","enum":["a","b"],"default":"b"}],
"result":[{"name":"count","type":"u64"},{"name":"mean","type":"f64"},{"name":"x","type":"i64","repeat":true}]}`

func TestParamsAndResults(t *testing.T) {
	d, err := ParseDoc([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.EncodeParams(map[string]string{"lo": "-1.5"})
	want := binary.LittleEndian.AppendUint64(nil, math.Float64bits(-1.5))
	want = binary.LittleEndian.AppendUint64(want, 4)
	want = binary.LittleEndian.AppendUint64(want, 1)
	if err != nil || string(got) != string(want) {
		t.Fatalf("params %x, %v; want %x", got, err, want)
	}
	refuse := func(text string, values map[string]string) {
		t.Helper()
		if _, err := d.EncodeParams(values); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v, want %q", values, err, text)
		}
	}
	refuse("needs parameter lo", nil)
	refuse(`no parameter "up"`, map[string]string{"lo": "1", "up": "2"})
	refuse("parameter lo", map[string]string{"lo": "one"})
	refuse("parameter n", map[string]string{"lo": "1", "n": "-1"})
	refuse("is not one of a, b", map[string]string{"lo": "1", "kind": "c"})

	result := binary.LittleEndian.AppendUint64(nil, 3)
	result = binary.LittleEndian.AppendUint64(result, math.Float64bits(2.5))
	result = binary.LittleEndian.AppendUint64(result, 7)
	values, err := d.Render(result)
	if err != nil || len(values) != 3 || values[0].Value != uint64(3) || values[1].Value != 2.5 {
		t.Fatalf("rendered %v, %v", values, err)
	}
	for _, cut := range []int{0, 8, 15, 23} {
		if _, err := d.Render(result[:cut]); err == nil {
			t.Errorf("a result of %d bytes is rendered", cut)
		}
	}
}

const rich = `{"name":"top","params":[
{"name":"k","type":"u64","default":"3","min":"1","max":"100"},
{"name":"share","type":"f64","default":"50","min":"0","max":"100","unit":"%"},
{"name":"shift","type":"i64","min":"-5","default":"0"},
{"name":"mark","type":"text","size":5,"default":"x"},
{"name":"more","type":"text","size":16,"default":"y"}],
"result":[{"name":"label","type":"text"},{"name":"since","type":"time"},
{"name":"full","type":"bool"},
{"name":"value","type":"f64","unit":"kW","repeat":true},{"name":"count","type":"u64","repeat":true}]}`

func TestRichParams(t *testing.T) {
	d, err := ParseDoc([]byte(rich))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.EncodeParams(map[string]string{"mark": "ä c", "more": "12345678", "k": "100"})
	want := binary.LittleEndian.AppendUint64(nil, 100)
	want = binary.LittleEndian.AppendUint64(want, math.Float64bits(50))
	want = append(want, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 4, 0, 0, 0, 48, 0, 0, 0, 8, 0, 0, 0)
	want = append(want, "ä c\x00\x00\x00\x0012345678"...)
	if err != nil || string(got) != string(want) {
		t.Fatalf("params %x, %v; want %x", got, err, want)
	}
	if err := d.CheckParams(got); err != nil {
		t.Error(err)
	}
	if err := d.CheckParams(nil); err != nil {
		t.Errorf("all have defaults: %v", err)
	}
	refuse := func(text, name, value string) {
		t.Helper()
		_, err := d.EncodeParams(map[string]string{name: value})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s=%s: %v, want %q", name, value, err, text)
		}
	}
	refuse("parameter k: 0 is below the least, 1", "k", "0")
	refuse("parameter k: 101 is above the greatest, 100", "k", "101")
	refuse("parameter share: 100.5 is above the greatest, 100 %", "share", "100.5")
	refuse("parameter share: NaN is below the least, 0 %", "share", "NaN")
	refuse("parameter shift: -6 is below the least, -5", "shift", "-6")
	refuse("parameter mark: a text of 6 bytes, want UTF-8 of at most 5", "mark", "123456")
	refuse("parameter mark: a text of 1 bytes", "mark", "\xff")

	wrong := func(text string, at int, b byte) {
		t.Helper()
		bad := append([]byte(nil), want...)
		bad[at] = b
		if err := d.CheckParams(bad); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("byte %d is %d: %v, want %q", at, b, err, text)
		}
	}
	wrong("parameter k: 0 is below", 0, 0)
	wrong("parameter share", 15, 0x7f)
	wrong("parameter shift: -", 23, 0x80)
	wrong("parameter mark: a text of 4 bytes at 41", 24, 41)
	wrong("parameter mark: a text of 255 bytes", 28, 255)
	wrong("parameter mark: a text of 8 bytes", 28, 8)
	wrong("parameter mark: the bytes behind", 46, 1)
	wrong("parameter more", 35, 1)
	wrong("follow the parameters", 36, 0)
	for n := 1; n < len(want); n++ {
		if d.CheckParams(want[:n]) == nil {
			t.Errorf("the first %d bytes are parameters", n)
		}
	}
}

func TestRefusedDocuments(t *testing.T) {
	f := func(want, param, field string) {
		t.Helper()
		_, err := ParseDoc([]byte(`{"name":"x","params":[` + param + `],"result":[` + field + `]}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %s: %v, want %q", param, field, err, want)
		}
	}
	f(`parameter 0 ("a"): has type "time"`, `{"name":"a","type":"time"}`, "")
	f(`min or max: parameter a: "z"`, `{"name":"a","type":"u64","min":"z"}`, "")
	f("min 5 is above max 4", `{"name":"a","type":"i64","min":"5","max":"4"}`, "")
	f("min NaN is above max 4", `{"name":"a","type":"f64","min":"NaN","max":"4"}`, "")
	f("default: parameter a: 9 is above", `{"name":"a","type":"u64","max":"4","default":"9"}`, "")
	f("only numbers have min", `{"name":"a","type":"text","size":3,"min":"a"}`, "")
	f("size 0", `{"name":"a","type":"text"}`, "")
	f("size 60001", `{"name":"a","type":"text","size":60001}`, "")
	f("size 1", `{"name":"a","type":"u64","size":1}`, "")
	f("an enum has values", `{"name":"a","type":"f64","enum":["x"]}`, "")
	f("printable", `{"name":"a\u001b[1m","type":"u64"}`, "")
	f("printable", `{"name":"a","type":"u64","unit":"\n"}`, "")
	f("printable", "", `{"name":"","type":"u64"}`)
	f("printable", "", `{"name":"a","type":"u64","unit":"`+strings.Repeat("k", 65)+`"}`)
	f(`has type "enum"`, "", `{"name":"a","type":"enum"}`)
	f("does not repeat", "", `{"name":"a","type":"u64","repeat":true},{"name":"b","type":"u64"}`)
}

func TestRichResults(t *testing.T) {
	d, err := ParseDoc([]byte(rich))
	if err != nil {
		t.Fatal(err)
	}
	u64 := binary.LittleEndian.AppendUint64
	result := append(u64(nil, 3), "a\xffc\x00\x00\x00\x00\x00"...)
	result = u64(u64(result, uint64(1e18)), 1)
	once := len(result)
	for i := range uint64(2) {
		result = u64(u64(result, math.Float64bits(2.5+float64(i))), i)
	}
	got, err := d.Render(result)
	want := []Value{{"label", "a\uFFFDc", ""}, {"since", Moment(1e18), ""}, {"full", true, ""},
		{"value", []any{2.5, 3.5}, "kW"}, {"count", []any{uint64(0), uint64(1)}, ""}}
	if err != nil || !reflect.DeepEqual(got, want) || d.Repeats() != 2 {
		t.Fatalf("%v, %v; want %v", got, err, want)
	}
	got, err = d.Render(result[:once])
	if err != nil || len(got[4].Value.([]any)) != 0 {
		t.Errorf("none of those that repeat: %v, %v", got, err)
	}
	for n := range result {
		if _, err := d.Render(result[:n]); (err == nil) != (n == once || n == once+16) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for at, b := range map[int]byte{0: 9, 7: 1, once - 8: 2} {
		bad := append([]byte(nil), result...)
		bad[at] = b
		if got, err := d.Render(bad); err == nil {
			t.Errorf("byte %d is %d: %v", at, b, got)
		}
	}
}

// FuzzCheckParams: what EncodeParams writes is accepted, and nothing breaks the check.
func FuzzCheckParams(f *testing.F) {
	d, err := ParseDoc([]byte(rich))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, "a", "1")
	f.Add(make([]byte, 56), "", "100")
	f.Fuzz(func(t *testing.T, src []byte, text, number string) {
		_ = d.CheckParams(src)
		params, err := d.EncodeParams(map[string]string{"mark": text, "share": number})
		if err != nil {
			return
		}
		if err := d.CheckParams(params); err != nil {
			t.Fatalf("%x: %v", params, err)
		}
	})
}

func FuzzParseDoc(f *testing.F) {
	f.Add([]byte(sample), []byte("12345678"))
	f.Add([]byte(rich), make([]byte, 40))
	f.Fuzz(func(t *testing.T, src, result []byte) {
		d, err := ParseDoc(src)
		if err != nil {
			return
		}
		_, _ = d.Render(result)
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseDoc(again); err != nil && len(again) <= MaxDocBytes {
			t.Fatalf("%q parses, %q does not: %v", src, again, err)
		}
	})
}

// TestFold makes results of several series one.
func TestFold(t *testing.T) {
	const fields = `{"name":"d","result":[{"name":"sum","type":"f64","fold":"sum"},
{"name":"n","type":"u64","fold":"sum"},{"name":"from","type":"time","fold":"first"},
{"name":"at","type":"f64","fold":"same"},{"name":"to","type":"time","fold":"last"},
{"name":"last","type":"f64","fold":"same"}]}`
	d, err := ParseDoc([]byte(fields))
	if err != nil || !d.Folds() {
		t.Fatal(err)
	}
	result := func(sum float64, n uint64, from int64, at float64, to int64, last float64) []byte {
		b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(sum))
		b = binary.LittleEndian.AppendUint64(b, n)
		b = binary.LittleEndian.AppendUint64(b, uint64(from))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(at))
		b = binary.LittleEndian.AppendUint64(b, uint64(to))
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(last))
	}
	into := result(0, 0, 0, math.NaN(), 0, math.NaN())
	for _, more := range [][]byte{result(1.5, 2, -5, 10, -3, 11), result(2, 3, -7, 20, -4, 22),
		result(0, 0, -9, math.NaN(), 9, math.NaN())} {
		if err := d.Fold(into, more); err != nil {
			t.Fatal(err)
		}
	}
	if want := result(3.5, 5, -7, 20, -3, 11); string(into) != string(want) {
		t.Errorf("folded %x, want %x", into, want)
	}
	if err := d.Fold(into, into[:40]); err == nil {
		t.Error("a result that is too short was folded")
	}
	for _, result := range []string{
		`{"name":"a","type":"f64","fold":"sum"},{"name":"b","type":"f64"}`,
		`{"name":"a","type":"f64"},{"name":"b","type":"f64","fold":"sum"}`,
		`{"name":"a","type":"time","fold":"sum"}`, `{"name":"a","type":"time","fold":"first"}`,
		`{"name":"a","type":"f64","fold":"same"}`, `{"name":"a","type":"f64","fold":"mean"}`,
		`{"name":"a","type":"f64","fold":"sum","repeat":true}`} {
		if _, err := ParseDoc([]byte(`{"name":"d","result":[` + result + `]}`)); err == nil {
			t.Errorf("%s was parsed", result)
		}
	}
}
