package rowjson

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

func parseNow() time.Time { return time.Unix(1_700_000_000, 0) }

// parses returns what checks that a record is read.
func parses(
	t *testing.T,
) func(src string, payloads quantity.Types, want record.Key, payload string) {
	return func(src string, payloads quantity.Types, want record.Key, payload string) {
		t.Helper()
		got, err := NewParser(payloads, parseNow()).Parse([]byte(src))
		if err != nil || got.Key != want || got.Tomb || string(got.Payload) != payload {
			t.Errorf("%s: %+v %v", src, got, err)
		}
	}
}

// refuses returns what checks that a record is refused with an error.
func refuses(t *testing.T) func(src string, payloads quantity.Types, want string) {
	return func(src string, payloads quantity.Types, want string) {
		t.Helper()
		_, err := NewParser(payloads, parseNow()).Parse([]byte(src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", src, err, want)
		}
	}
}

// TestParseMembers has members in other words, and of other types.
func TestParseMembers(t *testing.T) {
	f, bad := parses(t), refuses(t)
	key := record.Key{CID: 1, MID: -2, MOID: 3, CapNs: 4}
	f(`{"CID":1,"mid":-2,"m\u006fid":3,"cap":"4","payload":"e\u0041==","value":null}`,
		quantity.Base64, key, "x")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"payload":"\/\/8="}`, quantity.Base64, key, "\xff\xff")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"value":"a\"\u00e9"}`, quantity.Text, key, "a\"é")
	bad(`{"cid":1,"mid":"2","moid":3,"cap":4,"value":1}`, quantity.F64,
		"mid: string is not a valid int64")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"payload":1}`, quantity.F64,
		"payload: number 1 is not a valid string")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"payload":"*"}`, quantity.F64, "payload: illegal base64")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"deleted":0}`, quantity.F64,
		"deleted: number 0 is not a valid bool")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"Cid":5}`, quantity.F64,
		`the key "Cid" occurs twice`)
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"acq":{"a":1,"a":2},"value":1}`, quantity.F64,
		`the key "a" occurs twice`)
	bad("{\"cid\":1,\"mid\":2,\"moid\":3,\"cap\":4,\"value\":\"\xff\"}", quantity.Text, "UTF-8")
}

func TestParseRecord(t *testing.T) {
	f, bad := parses(t), refuses(t)
	key := record.Key{CID: 1, MID: -2, MOID: 3, CapNs: 4}
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"payload":"eA=="}`, quantity.Base64, key, "x")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"value":"x"}`, quantity.Text, key, "x")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"value":1}`, quantity.I64, key,
		"\x01\x00\x00\x00\x00\x00\x00\x00")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":"1970-01-01T00:00:00.000000004Z","value":2}`, quantity.F64,
		key,
		"\x00\x00\x00\x00\x00\x00\x00\x40")

	f(`{"cid":1,"mid":-2,"moid":3,"cap":"x","cap_ns":4,"acq":"y","acq_ns":5,"payload":""}`,
		quantity.Base64, key, "")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"value":"-Inf"}`, quantity.F64, key,
		"\x00\x00\x00\x00\x00\x00\xf0\xff")

	tomb, err := NewParser(quantity.F64, parseNow()).Parse(
		[]byte(`{"cid":1,"mid":-2,"moid":3,"cap":4,"deleted":true}`))
	if err != nil || tomb.Key != key || !tomb.Tomb {
		t.Errorf("%+v %v", tomb, err)
	}
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"deleted":true}`, quantity.F64,
		"must not have a payload or value")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"deleted":false}`, quantity.F64, "either payload")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4}`, quantity.F64, "either payload (base64) or value")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":null}`, quantity.F64, "either payload")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"payload":""}`, quantity.F64, "either payload")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":"1"}`, quantity.F64, "is not a number")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1e999}`, quantity.F64, "is not a number")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1.5}`, quantity.I64, "is not an integer")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1}`, quantity.Base64,
		"quantity 3 is not declared as a number or text")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1} 5`, quantity.F64, "text follows")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":null,"value":1}`, quantity.F64, "cap")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":"yesterday","value":1}`, quantity.F64, "cap: ")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"unit":"kWh","value":1}`, quantity.F64, "unit")
	bad(`{"cid":5000000000,"mid":2,"moid":3,"cap":4,"value":1}`, quantity.F64,
		"cid: number 5000000000 is not a valid int32")
	bad(`5`, quantity.F64, "a record is a JSON object, this is a JSON number")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":"2024-01-01","value":1}`, quantity.F64,
		`cap: "2024-01-01" is a time span; add the time of day`)
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4.5,"value":1}`, quantity.F64,
		"cap: 4.5 is neither a time in quotes nor whole ns since 1970")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":"Infinity"}`, quantity.F64, "is not a number")
	bad(`{"mid":2,"moid":3,"cap":4,"value":1}`, quantity.F64,
		"cid, mid, moid and cap must be there")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"cap":5}`, quantity.F64,
		`the key "cap" occurs twice`)
	bad(`{`, quantity.F64, "unexpected EOF")
	bad(``, quantity.F64, "EOF")
}

func TestRecords(t *testing.T) {
	f := func(body string, want ...string) {
		t.Helper()
		all, err := Records([]byte(body))
		if err != nil {
			t.Errorf("%q: %v", body, err)
			return
		}
		var got []string
		for number, src := range all {
			got = append(got, fmt.Sprintf("%d %s", number, src))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
	f("")
	f("[]")
	f("{\n \"cid\": 1\n}", "1 {\n \"cid\": 1\n}")
	f("{\"a\":1}\n\n{\"b\":2}\n", `1 {"a":1}`, `3 {"b":2}`)
	f(` [{"a":1}, {"b":2}]`, `1 {"a":1}`, `2 {"b":2}`)
	f("{\"a\":1}\nbroken\n", `1 {"a":1}`, "2 broken")
	// As curl -d sends a file.
	f(`{"a":1}{"b":"}{"} {"c":"\""}`, `1 {"a":1}`, `2 {"b":"}{"}`, `3 {"c":"\""}`)
	f(`{"a":1}{"b":2`, `1 {"a":1}`, `2 {"b":2`)
	f(`{"a":1}, {"b":2}`, `1 {"a":1}, {"b":2}`)
	f("{\"a\":1}{\"b\":2}\r\n{\"c\":3}", `1 {"a":1}`, `1 {"b":2}`, `2 {"c":3}`)
	// An object on several lines, and those that do not end.
	f("{\n\"a\":1\n}\n{\n\"b\":[2,\n3]}", "1 {\n\"a\":1\n}", "4 {\n\"b\":[2,\n3]}")
	f("{\"a\":1\n{\"b\":2}\n", `1 {"a":1`, `2 {"b":2}`)
	f("{\"a\":\"1\n{\"b\":2}", `1 {"a":"1`, `2 {"b":2}`)
	f("{\"a\":1\nx\n{\"b\":2}", `1 {"a":1`, "2 x", `3 {"b":2}`)
	f("{]\n}", "1 {]", "2 }")
	f("{}\n[", "1 {}", "2 [")
	if _, err := Records([]byte("[1,")); err == nil {
		t.Error("half an array")
	}
}

// TestRecordsOfOneLine: a body without line ends takes as long as one with them.
func TestRecordsOfOneLine(t *testing.T) {
	const record = `{"cid":1,"mid":2,"moid":3,"cap":4,"value":1}`
	all, err := Records([]byte(strings.Repeat(record, 500_000)))
	last := 0
	for number, src := range all {
		if last++; number != last || string(src) != record {
			t.Fatalf("record %d is number %d: %.80s", last, number, src)
		}
	}
	if err != nil || last != 500_000 {
		t.Errorf("%d records, %v", last, err)
	}
}

func TestDeclared(t *testing.T) {
	declared := quantity.NewDeclared([]plugin.Quantity{{MOID: 3, Type: plugin.F32},
		{MOID: 4, Type: plugin.Bytes}, {MOID: 5, Type: plugin.U32}, {MOID: 6, Type: plugin.I32}},
		quantity.Base64)
	f := func(moid, value, want string) {
		t.Helper()
		r, err := NewParser(declared, time.Time{}).Parse([]byte(`{"cid":1,"mid":2,"moid":` + moid +
			`,"cap":4,"value":` + value + `}`))
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: %v", moid, value, err)
			}
		case len(r.Payload) != 4:
			t.Errorf("%s %s: %d bytes", moid, value, len(r.Payload))
		default:
			if got := fmt.Sprint(RowOfRecord(&r, declared, false).Value); got != want {
				t.Errorf("%s %s: %s", moid, value, got)
			}
		}
	}
	f("3", "2.5", "2.5")
	f("3", `"-Inf"`, "-Inf")
	f("5", "4294967295", "4294967295")
	f("6", "-7", "-7")
	f("3", "1e39", "not a number of 32 bits")
	f("3", `"2.5"`, "not a number of 32 bits")
	f("3", "null", "either payload")
	f("4", "1", "quantity 4 is not declared as a number or text")
	f("5", "-1", "an integer from 0 to 4294967295")
	f("5", "1.5", "an integer from 0")
	f("6", "2147483648", "an integer from -2147483648")
	short := record.Record{Key: record.Key{MOID: 3}, Payload: []byte("x")}
	if row := RowOfRecord(&short, declared, false); row.Value != nil || *row.Payload != "eA==" {
		t.Errorf("a payload of another length: %+v", row)
	}
	src := []byte(`{"cid":1,"mid":2,"moid":3,"cap":4,"payload":"eA=="}`)
	_, err := NewParser(declared, time.Time{}).Parse(src)
	if err == nil || !strings.Contains(err.Error(), "the payload has 1 bytes, and quantity 3") {
		t.Errorf("a payload that does not fit: %v", err)
	}
	r, err := NewParser(quantity.Base64, time.Time{}).Parse(src)
	if err != nil || len(r.Payload) != 1 {
		t.Errorf("a payload as it is: %v", err)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"cid":1,"mid":-2,"moid":3,"cap":"now-1h","value":1.5}`), uint8(quantity.F64))
	f.Add([]byte(`[{"cid":1,"mid":-2,"moid":3,"cap":4,"payload":"eA=="}]`), uint8(0))
	f.Add([]byte(`{"cid":1,"mid":-2,"moid":3,"cap":4,"value":1}{}{`), uint8(quantity.F64))
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		all, err := Records(body)
		if err != nil {
			return
		}
		p := NewParser(quantity.Type(kind%8), now)
		last := 0
		for number, src := range all {
			if number < max(last, 1) || len(src) == 0 {
				t.Fatalf("record %d after %d, %d bytes", number, last, len(src))
			}
			last = number
			r, err := p.Parse(src)
			if err != nil {
				continue
			}
			if len(r.Payload) > len(body)+8 {
				t.Fatalf("line %d: %d bytes", number, len(r.Payload))
			}
			_ = value(quantity.Type(kind%8), r.Payload)
		}
	})
}

// BenchmarkParse reads a body of lines; an operation is a record.
func BenchmarkParse(b *testing.B) {
	now := time.Unix(1_700_000_000, 0)
	for _, kind := range []quantity.Type{quantity.F64, quantity.Base64} {
		member := `"value":21.53125`
		if kind == quantity.Base64 {
			member = `"payload":"AAAAAACINUAAAAAAAAAAAA=="`
		}
		body := []byte(strings.Repeat(`{"cid":1,"mid":4000000042,"moid":7,"cap":`+
			`"2026-03-03T12:00:00.123Z",`+member+"}\n", 1000))
		b.Run(kind.String(), func(b *testing.B) {
			b.ReportAllocs()
			for left := 0; b.Loop(); left-- {
				if left > 0 {
					continue
				}
				all, err := Records(body)
				if err != nil {
					b.Fatal(err)
				}
				p := NewParser(kind, now)
				for _, src := range all {
					if _, err := p.Parse(src); err != nil {
						b.Fatal(err)
					}
					left++
				}
			}
		})
	}
}
