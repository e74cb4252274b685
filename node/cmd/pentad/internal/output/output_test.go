package output

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/quantity"
)

func render(t *testing.T, opt Options, rows int) string {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, opt, Column{Name: "mid", Right: true}, Column{Name: "cap"},
		Column{Name: "value", Right: true}, Column{Name: "note"},
		Column{Name: "rows", Right: true}, Column{Name: "size", Right: true})
	all := [][]Value{
		{Int(7), Time(1_500_000_000), Float(24.5), Text("a, \"b\""), Count(1234567), Bytes(1999)},
		{Int(12345), Time(0), opaque([]byte{1, 2, 3}), Text("ü\x1b[31m"), Count(1), Bytes(17)},
		{Int(-1), Time(1), Null(), Text(""), Count(0), Bytes(2_500_000)},
	}
	for _, values := range all[:rows] {
		if err := w.Row(values...); err != nil {
			t.Fatal(err)
		}
	}
	if w.Rows() != uint64(rows) {
		t.Errorf("%d rows, want %d", w.Rows(), rows)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestForms(t *testing.T) {
	f := func(opt Options, rows int, want string) {
		t.Helper()
		if got := render(t, opt, rows); got != want {
			t.Errorf("%+v, %d rows:\n%s\nwant:\n%s", opt, rows, got, want)
		}
	}
	f(Options{Format: Table}, 3, ""+
		"  MID  CAP                                                 VALUE  NOTE        "+
		"    ROWS    SIZE\n"+
		"    7  1970-01-01 00:00:01.500Z                             24.5  a, \"b\"    "+
		" 1,234,567  2.0 KB\n"+
		"12345  1970-01-01 00:00:00Z            (3 bytes of another type)  ü\\x1b[31m "+
		"         1    17 B\n"+
		"   -1  1970-01-01 00:00:00.000000001Z                                         "+
		"       0  2.5 MB\n")
	f(Options{Format: Table}, 0, "")
	f(Options{Format: NDJSON}, 1, `{"mid":7,"cap":"1970-01-01T00:00:01.500Z",`+
		`"cap_ns":1500000000,"value":24.5,"note":"a, \"b\"","rows":1234567,"size":1999}`+"\n")
	f(Options{Format: NDJSON}, 0, "")
	f(Options{Format: JSON}, 0, "[]\n")
	f(Options{Format: CSV}, 0, "mid,cap,value,note,rows,size\n")
	f(Options{Format: CSV}, 2, "mid,cap,value,note,rows,size\n"+
		"7,1970-01-01T00:00:01.500Z,24.5,\"a, \"\"b\"\"\",1234567,1999\n"+
		"12345,1970-01-01T00:00:00Z,base64:AQID,ü\x1b[31m,1,17\n")
}

func TestSpan(t *testing.T) {
	f := func(d time.Duration, member, plain, people string) {
		t.Helper()
		v := Span(d)
		if got := string(v.appendMember(nil, "took")); got != `"took":`+member {
			t.Errorf("%s: %s", d, got)
		}
		if v.plain() != plain || v.people() != people {
			t.Errorf("%s: %s, %s", d, v.plain(), v.people())
		}
	}
	f(0, "0", "0", "0 ns")
	f(2619*time.Millisecond, "2.619", "2.619", "2.62 s")
	f(1378*time.Microsecond, "0.001378", "0.001378", "1.38 ms")
	f(3*time.Hour+time.Nanosecond, "10800.000000001", "10800.000000001", "3 h 00 m")
}

func TestJSONParses(t *testing.T) {
	f := func(opt Options, rows int, target any) {
		t.Helper()
		text := render(t, opt, rows)
		if err := json.Unmarshal([]byte(text), target); err != nil {
			t.Errorf("%+v, %d rows: %v:\n%s", opt, rows, err, text)
		}
	}
	for rows := range 4 {
		var list []map[string]any
		f(Options{Format: JSON}, rows, &list)
		if len(list) != rows {
			t.Errorf("%d objects, want %d", len(list), rows)
		}
	}
	var one map[string]any
	f(Options{Format: JSON, Single: true}, 1, &one)
	records, err := csv.NewReader(strings.NewReader(render(t, Options{Format: CSV}, 3))).ReadAll()
	if err != nil || len(records) != 4 {
		t.Errorf("csv: %d records, %v", len(records), err)
	}
	var special map[string]any
	line := Float(math.NaN()).appendMember([]byte("{"), "a")
	if err := json.Unmarshal(append(line, '}'), &special); err != nil || special["a"] != "NaN" {
		t.Errorf("NaN: %v, %v", special, err)
	}
}

func TestColorOnlyInHeader(t *testing.T) {
	lines := strings.SplitN(render(t, Options{Format: Table, Color: true}, 1), "\n", 2)
	if !strings.Contains(lines[0], "\x1b[1m") || strings.Contains(lines[1], "\x1b") {
		t.Errorf("%q", lines)
	}
}

func TestPeople(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(Thousands(0), "0")
	f(Thousands(-1234), "-1,234")
	f(Thousands(uint64(math.MaxUint64)), "18,446,744,073,709,551,615")
	f(Counted(0, "windows"), "0 windows")
	f(Counted(1, "windows"), "1 window")
	f(Counted(uint64(1234), "windows"), "1,234 windows")
	f(Size(999), "999 B")
	f(Size(999_999), "1.0 MB")
	f(Size(int64(3_400_000_000_000_000)), "3.4 PB")
	f(Computed(100090.91700000002).people(), "100,090.9")
	f(Computed(100090.91700000002).plain(), "100090.91700000002")
	f(Computed(0.6950758124999998).people(), "0.6950758")
	f(Computed(-0.5).people(), "-0.5")
	f(Computed(-1234567.89).people(), "-1,234,568")
	f(Computed(1e300).people(), "1e+300")
	f(Computed(1e-9).people(), "1e-09")
	f(Computed(0).people(), "0")
	f(Computed(math.NaN()).people(), "NaN")
	f(Computed(math.Inf(-1)).people(), "-Inf")
	f(Duration(17), "17 ns")
	f(Duration(2150*time.Nanosecond), "2.15 µs")
	f(Duration(212*time.Millisecond), "212 ms")
	f(Duration(3150*time.Millisecond), "3.15 s")
	f(Duration(125*time.Second), "2 m 05 s")
	f(Duration(3*time.Hour+4*time.Minute), "3 h 04 m")
	f(Duration(99*time.Hour), "99 h 00 m")
	f(Duration(1633*time.Hour), "68 d 01 h")
	f(Duration(-time.Second), "-1.00 s")
}

func TestPayload(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		kind, err := ParsePayloadType(name)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := kind.Append(nil, text)
		if err != nil {
			t.Errorf("%s %q: %v", name, text, err)
			return
		}
		if got := Payload(kind, payload).plain(); got != want {
			t.Errorf("%s %q: rendered %q, want %q", name, text, got, want)
		}
	}
	f("f64", "24.30", "24.3")
	f("f64", "4e+05", "400000")
	f("f64", "-0", "-0")
	f("f64", "1e300", "1e+300")
	f("i64", "-9223372036854775808", "-9223372036854775808")
	f("i64", "4e+05", "400000")
	f("i64", "100.0", "100")
	f("text", "ünï", "ünï")
	f("hex", "00ff", "00ff")
	f("base64", "AP8=", "AP8=")

	f("f32", "21.1", "21.1")
	f("i32", "-7", "-7")
	f("u32", "4294967295", "4294967295")
	if got := Payload(quantity.F64, []byte{1}).people(); got != "(1 bytes of another type)" {
		t.Error(got)
	}
	least := Payload(quantity.F64, binary.LittleEndian.AppendUint64(nil, 1))
	if got := least.plain(); got != "5e-324" {
		t.Error(got)
	}
	raw := RawPayload(quantity.Base64, []byte{1, 2, 3})
	if raw.plain() != "base64:AQID" || raw.people() != "AQID" ||
		string(raw.appendMember(nil, "old_value")) != `"old_payload":"AQID"` {
		t.Errorf("%+v", raw)
	}
}

func BenchmarkNDJSON(b *testing.B) {
	w := NewWriter(bytes.NewBuffer(nil), Options{Format: NDJSON}, Column{Name: "mid"},
		Column{Name: "cap"}, Column{Name: "value"})
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Row(Int(7), Time(1_500_000_000), Float(24.5)); err != nil {
			b.Fatal(err)
		}
	}
}
