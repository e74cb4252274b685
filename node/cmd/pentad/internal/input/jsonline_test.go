package input

import (
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestParseLine(t *testing.T) {
	f := func(line string, want record.Key, payload string) {
		t.Helper()
		got, err := ParseLine([]byte(line), quantity.Text)
		if err != nil || got.Key != want || got.Tomb || string(got.Payload) != payload {
			t.Errorf("%s: %+v %v", line, got, err)
		}
	}
	f(`{"cid":1,"mid":-2,"moid":3,"cap":4,"value":"x"}`, record.Key{CID: 1, MID: -2, MOID: 3,
		CapNs: 4}, "x")
	f(`{"cid":1,"mid":2,"moid":3,"cap":"1970-01-01T01:00:00+01:00","payload":"eA=="}`,
		record.Key{CID: 1, MID: 2, MOID: 3}, "x")
	f(`{"cid":1,"mid":2,"moid":3,"cap":"left aside","cap_ns":7,"acq":"x","acq_ns":1,
		"payload_hex":"78","value":null}`, record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 7}, "x")
	f(`{"cid":0,"mid":9223372036854775806,"moid":-2147483648,"cap":-1,"value":5}`,
		record.Key{MID: 9223372036854775806, MOID: -2147483648, CapNs: -1}, "5")

	bad := func(line, want string) {
		t.Helper()
		_, err := ParseLine([]byte(line), quantity.F64)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", line, err, want)
		}
	}
	const tomb = `{"cid":1,"mid":2,"moid":3,"cap":4,"deleted":true}`
	if got, err := ParseLine([]byte(tomb), quantity.F64); err != nil || !got.Tomb {
		t.Errorf("%+v, %v", got, err)
	}
	if key, err := ParseKeyLine(t.Context(), []byte(tomb), nil); err != nil || key.CapNs != 4 {
		t.Errorf("%+v, %v", key, err)
	}
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"deleted":true}`,
		"must not have a value or payload")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4}`, "value or payload is missing")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":null}`, "value or payload is missing")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"payload":""}`, "are both given")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":"x"}`, `"x" is not an f64`)
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":[1]}`, "is not an f64")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"payload":"*"}`, "payload is not base64")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":"2024-01-01","value":1}`,
		"write 2026-03-03T12:00:00Z")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":{},"value":1}`, "cap")
	bad(`{"cid":1,"mid":2,"moid":3,"value":1}`, "cap is missing")
	bad(`{"cid":1,"mid":2,"cap":4,"value":1}`, "moid is missing")
	bad(`{"cid":-1,"mid":2,"moid":3,"cap":4,"value":1}`, "cid: -1 is outside")
	bad(`{"cid":1.5,"mid":2,"moid":3,"cap":4,"value":1}`, "not a record in JSON")
	bad(`{"cid":1,"mid":2,"moid":3,"cap_ns":9223372036854775807,"value":1}`, "cap")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"unit":"kWh"}`, "unit")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1} {}`, "text follows")
	bad(`{"cid":1,"mid":2,"moid":3,"cap":4,"value":1,"Cap":4}`, `the key "Cap" occurs twice`)
	bad(`[]`, "not a record in JSON")
	bad(``, "not a record in JSON")
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"cid":1,"mid":2,"moid":3,"cap":"1970-01-01T01:00:00+01:00","payload":"eA=="}`))
	f.Add([]byte(`{"cid":1,"mid":2,"moid":3,"cap_ns":7,"value":1.5}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseLine(line, quantity.F64)
		if err != nil {
			return
		}
		b := record.Batch{CID: []int32{r.CID}, MID: []int64{r.MID}, MOID: []int32{r.MOID},
			CapNs: []int64{r.CapNs}, Stride: len(r.Payload), Data: r.Payload}
		if err := b.Validate(); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	})
}
