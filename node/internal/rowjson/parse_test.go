package rowjson

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestParseRecord(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	f := func(src string, payloads quantity.Types, want record.Key, payload string) {
		t.Helper()
		got, err := ParseRecord([]byte(src), payloads, now)
		if err != nil || got.Key != want || got.Tomb || string(got.Payload) != payload {
			t.Errorf("%s: %+v %v", src, got, err)
		}
	}
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

	bad := func(src string, payloads quantity.Types, want string) {
		t.Helper()
		_, err := ParseRecord([]byte(src), payloads, now)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", src, err, want)
		}
	}
	tomb, err := ParseRecord([]byte(`{"cid":1,"mid":-2,"moid":3,"cap":4,"deleted":true}`),
		quantity.F64, now)
	if err != nil || tomb.Key != key || !tomb.Tomb {
		t.Errorf("%+v %v", tomb, err)
	}
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"deleted":true}`, quantity.F64, "has neither")
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
		"cid: number 5000000000 is no int32")
	bad(`5`, quantity.F64, "a record is a JSON object, this is a JSON number")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":"2024-01-01","value":1}`, quantity.F64,
		`cap: "2024-01-01" is more than a moment; add the time of day`)
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4.5,"value":1}`, quantity.F64,
		"cap: 4.5 is neither a time in quotes nor whole ns since 1970")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":"Infinity"}`, quantity.F64, "is not a number")
	bad(`{"mid":2,"moid":3,"cap":4,"value":1}`, quantity.F64,
		"cid, mid, moid and cap must be there")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"cap":5}`, quantity.F64,
		`the key "cap" is there twice`)
	bad(`{`, quantity.F64, "unexpected EOF")
	bad(``, quantity.F64, "EOF")
}

func TestSplitRecords(t *testing.T) {
	f := func(body string, want ...string) {
		t.Helper()
		records, lines, err := SplitRecords([]byte(body))
		if err != nil || len(records) != len(want) || len(lines) != len(want) {
			t.Errorf("%q: %d records, %v", body, len(records), err)
			return
		}
		for i := range want {
			if string(records[i]) != want[i] {
				t.Errorf("%q: record %d is %q, want %q", body, i, records[i], want[i])
			}
		}
	}
	f("")
	f("{\n \"cid\": 1\n}", "{\n \"cid\": 1\n}")
	f("{\"a\":1}\n\n{\"b\":2}\n", `{"a":1}`, `{"b":2}`)
	f(` [{"a":1}, {"b":2}]`, `{"a":1}`, `{"b":2}`)
	f("{\"a\":1}\nbroken\n", `{"a":1}`, "broken")
	if _, _, err := SplitRecords([]byte("[1,")); err == nil {
		t.Error("half an array")
	}
}

func TestDeclared(t *testing.T) {
	declared := quantity.NewDeclared([]plugin.Quantity{{MOID: 3, Type: plugin.F32},
		{MOID: 4, Type: plugin.Bytes}, {MOID: 5, Type: plugin.U32}, {MOID: 6, Type: plugin.I32}},
		quantity.Base64)
	f := func(moid, value, want string) {
		t.Helper()
		r, err := ParseRecord([]byte(`{"cid":1,"mid":2,"moid":`+moid+`,"cap":4,"value":`+value+`}`),
			declared, time.Time{})
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
	_, err := ParseRecord(src, declared, time.Time{})
	if err == nil || !strings.Contains(err.Error(), "the payload has 1 bytes, and quantity 3") {
		t.Errorf("a payload that does not fit: %v", err)
	}
	if r, err := ParseRecord(src, quantity.Base64, time.Time{}); err != nil || len(r.Payload) != 1 {
		t.Errorf("a payload as it is: %v", err)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"cid":1,"mid":-2,"moid":3,"cap":"now-1h","value":1.5}`), uint8(quantity.F64))
	f.Add([]byte(`[{"cid":1,"mid":-2,"moid":3,"cap":4,"payload":"eA=="}]`), uint8(0))
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		records, lines, err := SplitRecords(body)
		if err != nil {
			return
		}
		for i, src := range records {
			r, err := ParseRecord(src, quantity.Type(kind%8), now)
			if err != nil {
				continue
			}
			if lines[i] < 1 || len(r.Payload) > len(body)+8 {
				t.Fatalf("line %d: %d bytes", lines[i], len(r.Payload))
			}
			_ = value(quantity.Type(kind%8), r.Payload)
		}
	})
}
