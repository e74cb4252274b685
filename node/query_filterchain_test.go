package node

import (
	"encoding/binary"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestChainKeepsRowsFromLaterFilters: a later filter fails on the payloads that an earlier one
// drops, so the chain works in one order only; so does an aggregate behind it.
func TestChainKeepsRowsFromLaterFilters(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	w := c.NewWriter(client.WriterOptions{})
	for i := range int64(3000) {
		payload := binary.LittleEndian.AppendUint32(nil, uint32(i%3))
		if i%3 > 0 { // else too short for a number at byte 4
			payload = append(payload, f64(float64(i))...)
		}
		if err := w.Add(t.Context(), record.Key{MID: i}, payload); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	long, high, two := "type=i32,op=ne,value=0", "offset=4,value=1500", "type=i32,op=eq,value=2"
	f := func(want uint64, params ...string) {
		t.Helper()
		q := &record.Query{Filters: thresholds(t, n, params...)}
		count, _, err := c.Count(t.Context(), q)
		if err != nil || count != want {
			t.Errorf("%v: count %d, %v; want %d", params, count, err, want)
		}
		q.Aggregate.Name = "count"
		groups, _, err := c.Aggregate(t.Context(), q)
		if err != nil || len(groups) != 1 || groups[0].Records != want {
			t.Errorf("%v: %+v, %v; want %d", params, groups, err, want)
		}
	}
	f(2000, long)
	f(1000, long, high)
	f(500, long, high, two)
	f(500, two, long, high)
	_, _, err := c.Count(t.Context(), &record.Query{Filters: thresholds(t, n, high, long)})
	if toWire(err).Kind != wire.KindPluginFailed {
		t.Errorf("the filter that needs long payloads first: %v", err)
	}
	_, _, err = c.Count(t.Context(), &record.Query{
		Filters: append(thresholds(t, n, long), record.PluginCall{Name: "stats"})})
	if e := toWire(err); e.Kind != wire.KindInvalid || e.Part != "filter" {
		t.Errorf("an aggregate in the chain: %v", err)
	}
}

// TestInitRunsWhereNothingIs: what a plugin says when it starts does not wait until there is a
// record, or a box that can hold one.
func TestInitRunsWhereNothingIs(t *testing.T) {
	n := openTest(t, Options{})
	call := record.PluginCall{Name: "init-spin", Params: make([]byte, 8),
		Module: hostile(t, "init-spin")}
	nothing := record.Query{}
	nothing.Box[record.Acq] = record.RangeSet{{From: 1 << 62, To: 1<<62 + 1}}
	for name, q := range map[string]record.Query{"an empty node": {}, "an empty box": nothing} {
		filtered, folded := q, q
		filtered.Filters = []record.PluginCall{call}
		if _, _, err := n.Count(t.Context(), &filtered); toWire(err).Kind != wire.KindPluginLimit {
			t.Errorf("%s: a filter: %v", name, err)
		}
		folded.Aggregate = call
		_, _, err := n.Aggregate(t.Context(), &folded)
		if toWire(err).Kind != wire.KindPluginLimit {
			t.Errorf("%s: an aggregate: %v", name, err)
		}
	}
}
