package main

import (
	"testing"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestCount counts what was stored, also by queries of many ranges.
func TestCount(t *testing.T) {
	_, db := testNode(t)
	var b record.Batch
	for i := range 5000 {
		b.Append(record.Key{CID: int32(i % 3), MID: int64(i), MOID: -1, CapNs: int64(i % 100)}, nil)
	}
	for range 2 { // two versions of each
		if _, err := db.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	f := func(q *record.Query, want uint64) {
		t.Helper()
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		if got, err := queryflags.Count(t.Context(), db, q); err != nil || got != want {
			t.Errorf("%.100v: %d, %v, want %d", q.Box, got, err, want)
		}
	}
	f(&record.Query{}, 10_000)
	f(&record.Query{View: record.ViewLatest}, 5000)
	f(&record.Query{View: record.ViewAsOf, AsOfAcqNs: 1}, 0)
	f(&record.Query{Box: record.Box{{record.At(0)}, {{From: -5, To: 30}}, {{From: -3, To: 0}}}}, 20)
	f(&record.Query{Box: record.Box{nil, nil, nil, {record.At(1), record.At(99)}}}, 200)
	odd := record.RangeSet{}
	for i := range record.MaxRangesPerDim {
		odd = append(odd, record.At(int64(2*i+1)))
	}
	f(&record.Query{Box: record.Box{nil, odd}}, 2*record.MaxRangesPerDim)
	f(&record.Query{Box: record.Box{nil, odd}, View: record.ViewLatest}, record.MaxRangesPerDim)
}
