package node

import (
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

func TestParseRecord(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	f := func(src string, kind payloadType, want record.Key, payload string) {
		t.Helper()
		got, err := parseRecord([]byte(src), kind, now)
		if err != nil || got.Key != want || got.Tomb || string(got.Payload) != payload {
			t.Errorf("%s: %+v %v", src, got, err)
		}
	}
	key := record.Key{CID: 1, MID: -2, MOID: 3, CapNs: 4}
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"payload":"eA=="}`, payloadBase64, key, "x")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"value":"x"}`, payloadText, key, "x")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"value":1}`, payloadI64, key,
		"\x01\x00\x00\x00\x00\x00\x00\x00")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":"1970-01-01T00:00:00.000000004Z","value":2}`, payloadF64,
		key,
		"\x00\x00\x00\x00\x00\x00\x00\x40")

	f(`{"cid":1,"mid":-2,"moid":3,"cap":"x","cap_ns":4,"acq":"y","acq_ns":5,"payload":""}`,
		payloadBase64, key, "")
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"value":"-Inf"}`, payloadF64, key,
		"\x00\x00\x00\x00\x00\x00\xf0\xff")

	bad := func(src string, kind payloadType, want string) {
		t.Helper()
		_, err := parseRecord([]byte(src), kind, now)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", src, err, want)
		}
	}
	tomb, err := parseRecord([]byte(`{"cid":1,"mid":-2,"moid":3,"cap":4,"deleted":true}`),
		payloadF64, now)
	if err != nil || tomb.Key != key || !tomb.Tomb {
		t.Errorf("%+v %v", tomb, err)
	}
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"deleted":true}`, payloadF64, "has neither")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"deleted":false}`, payloadF64, "either payload")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4}`, payloadF64, "either payload (base64) or value")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":null}`, payloadF64, "either payload")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"payload":""}`, payloadF64, "either payload")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":"1"}`, payloadF64, "is not a number")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1e999}`, payloadF64, "is not a number")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1.5}`, payloadI64, "is not an integer")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1}`, payloadBase64,
		"a value needs a declared type")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1} 5`, payloadF64, "text follows")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":null,"value":1}`, payloadF64, "cap")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":"yesterday","value":1}`, payloadF64, "cap: ")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"unit":"kWh","value":1}`, payloadF64, "unit")
	bad(`{"cid":5000000000,"mid":2,"moid":3,"cap":4,"value":1}`, payloadF64,
		"cid: number 5000000000 is no int32")
	bad(`5`, payloadF64, "a record is a JSON object, this is a JSON number")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":"2024-01-01","value":1}`, payloadF64,
		`cap: "2024-01-01" is more than a moment; add the time of day`)
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4.5,"value":1}`, payloadF64,
		"cap: 4.5 is neither a time in quotes nor whole ns since 1970")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":"Infinity"}`, payloadF64, "is not a number")
	bad(`{"mid":2,"moid":3,"cap":4,"value":1}`, payloadF64, "cid, mid, moid and cap must be there")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"cap":5}`, payloadF64,
		`the key "cap" is there twice`)
	bad(`{`, payloadF64, "unexpected EOF")
	bad(``, payloadF64, "EOF")
}

func TestSplitRecords(t *testing.T) {
	f := func(body string, want ...string) {
		t.Helper()
		records, lines, err := splitRecords([]byte(body))
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
	if _, _, err := splitRecords([]byte("[1,")); err == nil {
		t.Error("half an array")
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"cid":1,"mid":-2,"moid":3,"cap":"now-1h","value":1.5}`), uint8(payloadF64))
	f.Add([]byte(`[{"cid":1,"mid":-2,"moid":3,"cap":4,"payload":"eA=="}]`), uint8(0))
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		records, lines, err := splitRecords(body)
		if err != nil {
			return
		}
		for i, src := range records {
			r, err := parseRecord(src, payloadType(kind%4), now)
			if err != nil {
				continue
			}
			if lines[i] < 1 || len(r.Payload) > len(body)+8 {
				t.Fatalf("line %d: %d bytes", lines[i], len(r.Payload))
			}
			_ = payloadType(kind % 4).value(r.Payload)
		}
	})
}

// FuzzBox reads query strings: they are refused, or make a query that holds.
func FuzzBox(f *testing.F) {
	f.Add("cid=1,3..5&mid=100..&moid=*&cap=2024-01..2024-02&acq=now-1h..&view=latest&limit=5")
	f.Add("asof=2024-01-01T00:00:00Z&order=key&type=f64&group=cid,mid&every=15m")
	s := &server{http: &httpserver.Server{}, node: &Node{plugins: &registry.Registry{},
		clock: clock.New(clock.Options{})}}
	f.Fuzz(func(t *testing.T, text string) {
		var ctx fasthttp.RequestCtx
		ctx.QueryArgs().Parse(text)
		q, err := s.parseBox(&ctx)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error that says nothing")
			}
			return
		}
		if err := parseGroups(&ctx, q); err != nil {
			return
		}
		if err := q.Normalize(); err != nil && q.GroupBy == (record.GroupBy{}) {
			t.Fatalf("%q: normalised twice: %v", text, err)
		}
	})
}
