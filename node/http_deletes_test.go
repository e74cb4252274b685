package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestDeletesForPeople deletes, erases and purges by HTTP.
func TestDeletesForPeople(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	for _, mid := range []string{"1", "2", "3"} {
		a.expect("POST", "/v1/records?type=f64", `{"cid":1,"mid":`+mid+
			`,"moid":1,"cap":1,"value":5}`, 200, `"written":1`)
	}
	a.expect("POST", "/v1/records", `{"cid":1,"mid":1,"moid":1,"cap":1,"deleted":true}`, 200,
		`"written":1`)
	lines := a.expect("GET", "/v1/records?mid=1&view=all&format=ndjson&type=f64&order=acq", "", 200,
		`"value":5}`, `"deleted":true}`)
	if strings.Contains(lines, `"payload"`) || strings.Contains(lines, `"purged_acq_ns"`) {
		t.Error(lines)
	}
	a.expect("GET", "/v1/count?mid=1&view=all", "", 200, `"records":2`)
	a.expect("GET", "/v1/count", "", 200, `"records":2`)
	a.expect("GET", "/v1/count?view=all&filter=threshold&filter_params=value=0", "", 200,
		`"records":3`)
	a.expect("GET", "/v1/plugins/count/run?group=mid&view=all", "", 200, `"mid":1,"records":1`)

	a.expect("POST", "/v1/erase", "", 400, `"part":"box"`, "everything=1")
	a.expect("POST", "/v1/erase?mid=2&view=latest", "", 400, `unknown parameter \"view\"`)
	a.expect("POST", "/v1/erase?mid=", "", 400, "mid: is empty")
	a.expect("POST", "/v1/purge?cid=1", "mid=1", 400, `"part":"body"`, "in the URL")
	a.expect("POST", "/v1/erase?cid=1", "mid=1", 400, `"part":"body"`)
	frame := wire.AppendBox(nil, &wire.Box{Everything: true})
	if code, answer := post(t, a.node, "POST", "/v1/purge?mid=1", wire.ContentType,
		frame); code != 400 {
		t.Errorf("a box frame beside parameters: %d %q", code, answer)
	}
	a.expect("POST", "/v1/erase?mid=2&dry_run=1", "", 200, `"records":1`)
	a.expect("POST", "/v1/erase?mid=2", "", 200, `"acq_ns":`, `"acq":"`)
	a.expect("GET", "/v1/count", "", 200, `"records":1`)
	a.expect("GET", "/v1/count?view=all", "", 200, `"records":4`)
	a.expect("POST", "/v1/purge?everything=1&dry_run=1", "", 200, `"records":4`)
	a.expect("POST", "/v1/purge?mid=1..=2", "", 200, `"acq_ns":`)
	a.expect("GET", "/v1/count?view=all", "", 200, `"records":1`, `"purged_acq_ns":`)
	a.expect("GET", "/v1/events", "", 200,
		`"kind":"erase"`, `"box":{"mid":"2"},"done":null,"removed":null}`,
		`"kind":"purge"`, `"box":{"mid":"1..3"},"done":`)
	a.expect("POST", "/v1/erase?cap=2026-01", "", 200, `"acq_ns":`)
	a.expect("GET", "/v1/events", "", 200,
		`"box":{"cap":"2026-01-01T00:00:00Z..2026-02-01T00:00:00Z"}`)
}

// TestRetentionForPeople sets and removes policies by HTTP.
func TestRetentionForPeople(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	a.expect("GET", "/v1/retention", "", 200, `{"policies":[]}`)
	a.expect("PUT", "/v1/retention?cid=1&cap_age=30d&acq_age=1h", "", 200,
		`{"cid":1,"moid":null,"cap_age_ns":2592000000000000,"acq_age_ns":3600000000000}`)
	a.expect("PUT", "/v1/retention?moid=-7&cap_age=1h", "", 200, `"moid":-7`)
	a.expect("GET", "/v1/retention", "", 200, `"moid":-7`, `"cid":1`)
	a.expect("GET", "/v1/events", "", 200, `"kind":"retention"`,
		`"done":null,"removed":null,"removal":{"records":0,`)
	a.expect("PUT", "/v1/retention?cap_age=1h", "", 400, `"part":"box"`, "everything=1")
	a.expect("PUT", "/v1/retention?cap_age=1h&dry_run=1", "", 400, `"part":"box"`)
	a.expect("PUT", "/v1/retention?cap_age=1h&everything=yes", "", 400, `"part":"everything"`)
	a.expect("PUT", "/v1/retention?cid=7&cap_age=1h&dry_run=x", "", 400, `"part":"dry_run"`)
	a.expect("POST", "/v1/records?type=f64", `{"cid":7,"mid":1,"moid":1,"cap":1,"value":5}`, 200)
	a.expect("PUT", "/v1/retention?cid=7&cap_age=1h&dry_run=1", "", 200, `"records":1`)
	a.expect("PUT", "/v1/retention?cap_age=1h&everything=1&dry_run=1", "", 200, `"records":1`)
	a.expect("PUT", "/v1/retention?cid=7&acq_age=1h&dry_run=1", "", 200, `"records":0`)
	a.expect("PUT", "/v1/retention?cid=1,2&cap_age=1h", "", 400, `"part":"cid"`, "is not one")
	a.expect("PUT", "/v1/retention?cid=-1&cap_age=1h", "", 400, `"part":"cid"`)
	a.expect("PUT", "/v1/retention?cap_age=3600", "", 400, `"part":"cap_age"`, "24h or 90d")
	a.expect("PUT", "/v1/retention?cid=1", "", 400, "DELETE removes")
	a.expect("PUT", "/v1/retention?tenant=1&cap_age=1h", "", 400, `unknown parameter \"tenant\"`)
	a.expect("DELETE", "/v1/retention?cid=1&cap_age=1h", "", 400, `unknown parameter \"cap_age\"`)
	a.expect("DELETE", "/v1/retention", "cid=1", 400, `"part":"body"`)
	a.expect("PUT", "/v1/retention?cap_age=1h", "cid=1", 400, `"part":"body"`)
	a.expect("DELETE", "/v1/retention?cid=1", "", 200)
	a.expect("DELETE", "/v1/retention?cid=1", "", 404, "there is no policy for cid 1, moid *")
	a.expect("GET", "/v1/retention?cid=1", "", 400,
		`unknown parameter \"cid\"; this route has none`)
	a.expect("GET", "/v1/events?cid=1", "", 400, `unknown parameter \"cid\"; this route has none`)
	left := a.expect("GET", "/v1/retention", "", 200, `"moid":-7`)
	if strings.Contains(left, `"cid":1`) {
		t.Error(left)
	}
}

// remote asks a node by its client.
type remote struct {
	*testing.T
	*client.Client
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	c, err := client.Dial(t.Context(), openTest(t, Options{}).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &remote{t, c}
}

func deviceOf(mid int64) record.Key { return record.Key{CID: 1, MID: mid, CapNs: 1} }

// fill puts a reading of each of five devices and deletes that of the first.
func (r *remote) fill() {
	r.Helper()
	w := r.NewWriter(client.WriterOptions{})
	for mid := range int64(5) {
		if err := w.Add(r.Context(), deviceOf(mid), []byte("12345678")); err != nil {
			r.Fatal(err)
		}
	}
	if err := w.Delete(r.Context(), deviceOf(0)); err != nil {
		r.Fatal(err)
	}
	if err := w.Close(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// want wants that many records, with that many tombstones.
func (r *remote) want(q *record.Query, count uint64, tombs int) wire.End {
	r.Helper()
	got, end, err := r.Count(r.Context(), q)
	if err != nil || got != count {
		r.Fatalf("count %d, want %d, %v", got, count, err)
	}
	for row, err := range r.Query(r.Context(), q) {
		if err != nil {
			r.Fatal(err)
		}
		count--
		if row.Tomb {
			tombs--
		}
		if row.Tomb != (len(row.Payload) == 0) {
			r.Fatalf("%+v", row)
		}
	}
	if count != 0 || tombs != 0 {
		r.Fatalf("%d records and %d tombstones too few", count, tombs)
	}
	return end
}

// TestDeletesByClient deletes, erases and purges by frames.
func TestDeletesByClient(t *testing.T) {
	r := newRemote(t)
	r.fill()
	latest := &record.Query{View: record.ViewLatest}
	r.want(latest, 4, 0)
	r.want(&record.Query{}, 6, 1)
	r.want(&record.Query{Order: record.OrderKey}, 6, 1)
	if _, err := r.Delete(t.Context(), deviceOf(1), deviceOf(2)); err != nil {
		t.Fatal(err)
	}
	r.want(latest, 2, 0)
	box := func(mid int64) *wire.Box {
		b := new(wire.Box)
		b.Box[record.MID] = record.RangeSet{record.At(mid)}
		return b
	}
	if _, err := r.Erase(t.Context(), box(3)); err != nil {
		t.Fatal(err)
	}
	r.want(latest, 1, 0)
	acq, err := r.Purge(t.Context(), box(1))
	if err != nil {
		t.Fatal(err)
	}
	if end := r.want(&record.Query{}, 6, 2); end.HistoryChangedAcqNs != acq {
		t.Fatalf("purged %d, want %d", end.HistoryChangedAcqNs, acq)
	}
	var invalid *record.InvalidError
	if _, err := r.Erase(t.Context(), &wire.Box{}); !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	if _, err := r.Erase(t.Context(), &wire.Box{Everything: true}); err != nil {
		t.Fatal(err)
	}
	r.want(latest, 0, 0)
	events, err := r.Events(t.Context())
	if err != nil || len(events) != 3 || events[1].AcqNs != acq || events[1].Kind != "purge" ||
		events[1].Box["mid"] != "1" {
		t.Fatalf("%+v, %v", events, err)
	}
}

// holds stops a policy, undoes what it hid, and lets it go on.
func (r *remote) holds(policy client.Retention) {
	r.Helper()
	hold := func(h client.Hold, rows uint64) {
		r.Helper()
		if err := r.HoldRetention(r.Context(), h); err != nil {
			r.Fatal(err)
		}
		r.want(&record.Query{}, rows, int(min(rows, 1))) // of which one is a tombstone
	}
	all, _, err := r.Count(r.Context(), &record.Query{})
	if err == nil {
		err = r.SetRetention(r.Context(), policy)
	}
	if err != nil {
		r.Fatal(err)
	}
	r.want(&record.Query{}, 0, 0)
	events, err := r.Events(r.Context())
	if err != nil || len(events) != 1 || events[0].Removal == nil ||
		events[0].Removal.Records != all || events[0].Removal.Bytes == 0 ||
		events[0].Removal.DoneNs <= events[0].Removal.NextNs ||
		events[0].Removal.NextNs < events[0].AcqNs+int64(59*time.Minute) {
		r.Fatalf("%+v, %v", events, err)
	}
	hold(client.Hold{Action: "hold", CID: policy.CID}, 0)
	policies, err := r.Retention(r.Context())
	if err != nil || !policies[0].Held {
		r.Fatalf("%+v, %v", policies, err)
	}
	hold(client.Hold{Action: "undo", CID: policy.CID}, all)
	if err := r.SetRetention(r.Context(), policy); err != nil {
		r.Fatal(err)
	}
	hold(client.Hold{Action: "resume", Everything: true, TrustClock: true}, all)
	if err := r.SetRetention(r.Context(), policy); err != nil {
		r.Fatal(err)
	}
	hold(client.Hold{Action: "undo", Everything: true}, all)
	hold(client.Hold{Action: "resume", Everything: true}, all)
	if err := r.SetRetention(r.Context(), client.Retention{CID: policy.CID}); err != nil {
		r.Fatal(err)
	}
	for _, h := range []client.Hold{{Action: "hold", CID: policy.CID}, {Action: "sit"}} {
		if err := r.HoldRetention(r.Context(), h); err == nil {
			r.Fatalf("no error of %+v", h)
		}
	}
}

// TestRetentionByClient sets and removes a policy.
func TestRetentionByClient(t *testing.T) {
	r := newRemote(t)
	r.fill()
	tenant := int32(1)
	policy := client.Retention{CID: &tenant, MaxCapAgeNs: 5}
	before, _, err := r.Count(t.Context(), &record.Query{})
	if err != nil {
		t.Fatal(err)
	}
	records, err := r.CountExpired(t.Context(), policy)
	if err != nil || records != before || records == 0 {
		t.Fatalf("%d of %d records, %v", records, before, err)
	}
	if err := r.SetRetention(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	all, err := r.Retention(t.Context())
	if err != nil || len(all) != 1 || *all[0].CID != 1 || all[0].MaxCapAgeNs != 5 {
		t.Fatalf("%+v, %v", all, err)
	}
	r.want(&record.Query{}, 0, 0)
	if err := r.SetRetention(t.Context(), client.Retention{CID: &tenant}); err != nil {
		t.Fatal(err)
	}
	if all, err = r.Retention(t.Context()); err != nil || len(all) != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	r.want(&record.Query{}, before, 1) // nothing was released
	r.holds(policy)
	if err := r.SetRetention(t.Context(), client.Retention{MaxAcqAgeNs: 1 << 60}); err != nil {
		t.Fatal(err)
	}
	if all, err = r.Retention(t.Context()); err != nil || len(all) != 1 || all[0].CID != nil {
		t.Fatalf("%+v, %v", all, err)
	}
}
