package workload

import (
	"slices"
	"testing"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestAnswerTellsRowsApart changes one thing at a time.
func TestAnswerTellsRowsApart(t *testing.T) {
	acqs := []int64{1000, 1000 + BatchRows}
	base := record.Record{Key: record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 4, AcqNs: 1005},
		Payload: make([]byte, 16)}
	sum := func(change func(*record.Record)) Answer {
		r := base
		r.Payload = slices.Clone(base.Payload)
		change(&r)
		var b record.Batch
		b.AppendStamped(r.Key, r.Payload)
		var a Answer
		a.Add(&b, system.WantRows, acqs)
		return a
	}
	want := sum(func(*record.Record) {})
	if got := sum(func(r *record.Record) { r.AcqNs = 1009 }); got != want {
		t.Error("another stamp of the same batch is another answer")
	}
	for i, change := range []func(*record.Record){
		func(r *record.Record) { r.CID = 2 }, func(r *record.Record) { r.MID = 3 },
		func(r *record.Record) { r.MOID = 4 }, func(r *record.Record) { r.CapNs = 5 },
		func(r *record.Record) { r.Payload[15] = 1 }, func(r *record.Record) { r.AcqNs = 999 },
		func(r *record.Record) { r.AcqNs = 1000 + BatchRows },
		func(r *record.Record) { r.AcqNs = 1000 + 3*BatchRows },
	} {
		if sum(change) == want {
			t.Errorf("change %d is not seen", i)
		}
	}
}
