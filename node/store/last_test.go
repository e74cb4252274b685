package store

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestLastReadsLittle: the newest readings of a fleet are found without reading its history, though
// some devices ended long ago.
func TestLastReadsLittle(t *testing.T) {
	s := openTest(t, Options{Shards: 1, Index: index.Options{BlockRows: 256}})
	for segment := range int64(3) {
		for hour := range int64(40) {
			b := &record.Batch{}
			for device := range int64(600) {
				if device%100 != 7 || segment == 0 {
					b.Append(record.Key{MID: device,
						CapNs: (segment*40 + hour) * int64(time.Hour)}, nil)
				}
			}
			mustPut(t, s, b, WriterSeq{})
		}
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	blocks := 0
	for _, seg := range s.shards[0].State.Load().Sealed {
		if seg.Series == nil {
			t.Fatal("a segment has no series table")
		}
		blocks += seg.Index.Blocks()
	}
	for _, n := range []uint32{1, 3} { // a block counts once for each of its runs that is read
		stats, err := s.Scan(t.Context(), &record.Query{View: record.ViewLatest, Last: n},
			func(int) (Sink, error) { return func(*record.Batch) error { return nil }, nil })
		if err != nil || stats.Rows != 600*uint64(n) ||
			stats.BlocksScanned*5 > uint64(n)*uint64(blocks) {
			t.Errorf("last %d: %+v, %v; there are %d blocks", n, stats, err, blocks)
		}
	}
}

// TestLastLosesAReading: the newest reading turns out to be corrected, by a version that the query
// did not ask for, after older readings were passed over.
func TestLastLosesAReading(t *testing.T) {
	s := openTest(t, Options{Shards: 1, Index: index.Options{BlockRows: 8}})
	m := &model{}
	var after int64
	put := func(keys ...record.Key) {
		b := batchOf(keys...)
		res := mustPut(t, s, b, WriterSeq{})
		m.add(b, splitByShard(b, 1), res)
		after = res.LastAcqNs + 1
	}
	for i := range int64(100) {
		put(record.Key{MID: 1, CapNs: i}, record.Key{MID: 2, CapNs: i})
	}
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := after
	for i := int64(99); i > 60; i -= 2 {
		put(record.Key{MID: 1, CapNs: i})
	}
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint32{1, 3, 50} {
		q := record.Query{View: record.ViewLatest, Last: n,
			Box: record.Box{record.Acq: {{From: 0, To: asked}}}}
		compare(t, "last", scanRows(t, s, &q), m.query(&q))
	}
}
