package index

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestReservedInHeads asks heads for all but reserved moids, by arrival and by cell, before and
// after such a row comes.
func TestReservedInHeads(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	h, rows := NewHead(NewWatermarks()), new(record.Batch)
	for range 40 {
		part := new(record.Batch)
		for range 1 + rng.IntN(300) {
			moid := record.FirstMOID + rng.Int32N(3)
			if rows.Len() > 3000 && rng.IntN(50) == 0 {
				moid = math.MinInt32 + rng.Int32N(16)
			}
			part.AppendStamped(record.Key{CID: 1, MID: rng.Int64N(600), MOID: moid,
				CapNs: rng.Int64N(100), AcqNs: int64(rows.Len() + part.Len())}, []byte("x"))
		}
		h.Insert(part)
		rows.AppendRows(part, 0, part.Len())
		for _, moids := range []record.RangeSet{nil, {record.All(record.MOID)},
			{record.At(record.NameMOID)}, {{From: record.FirstMOID + 1, To: math.MaxInt32}}} {
			q := record.Query{Box: record.Box{record.MOID: moids}}
			if rng.IntN(2) == 0 {
				q.Box[record.Acq] = record.RangeSet{{From: rng.Int64N(50), To: math.MaxInt64}}
			}
			if rng.IntN(3) == 0 {
				q.Box[record.MID] = record.RangeSet{{From: 0, To: 500}}
			}
			if err := q.Normalize(); err != nil {
				t.Fatal(err)
			}
			checkScan(t, h, rows, &q.Box, math.MaxInt64, false)
		}
	}
	if all := (&record.Box{}); h.Count(all, math.MaxInt64) != rows.Len() {
		t.Error("a box without moids is not of all rows")
	}
}

// TestReservedCostNothing: where no such moid is stored, plans are those of a box without moids.
func TestReservedCostNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s, _, _ := indexOf(rng, shapes()[0].rows(rng, 5000), small())
	var want, got Plan
	s.Plan(&record.Box{}, &want)
	for _, moids := range []record.RangeSet{nil, {record.All(record.MOID)}} {
		x := record.Box{record.MOID: moids}
		if err := x.NormalizeAsked(); err != nil {
			t.Fatal(err)
		}
		s.Plan(&x, &got)
		if got.Stats != want.Stats || len(got.Candidates) != len(want.Candidates) {
			t.Errorf("%v: %+v, without moids %+v", x, got.Stats, want.Stats)
		}
	}
}
