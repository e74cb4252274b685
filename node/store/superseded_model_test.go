package store

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestModelSuperseded asks again and again for the latest and earlier states while corrections
// come, so that what segments keep of superseded rows is used; seldom is there what makes it void.
func TestModelSuperseded(t *testing.T) {
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 10, moids: 2, caps: 300, rareTombs: true}
	kept, used, sums := 0, uint64(0), 0
	var looks atomic.Int64
	blockNow := func() time.Time { // blocks must be verified again after some scans
		return time.Unix(1e9, looks.Add(1)*int64(segment.VerifyAfter)/20)
	}
	for range rounds.Of(12, 4, 2) {
		opt := Options{Dir: t.TempDir(), Shards: 1 + rng.IntN(2), SealRows: 1500,
			Workers: 1 + rng.IntN(2), Index: index.Options{BlockRows: 64 << rng.IntN(4)},
			maxReadings: 100 << rng.IntN(10), parallelRows: fewParallel, Now: leapingClock(),
			retainEvery: time.Hour, PutWait: 5 * time.Minute, blockNow: blockNow}
		s, _, err := Open(t.Context(), divided(t, opt))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		m := &model{}
		for step := range 120 {
			switch op := rng.IntN(100); {
			case op < 35:
				b := sh.batch(rng, 1+rng.IntN(400), time.Now().UnixNano())
				res, err := s.Put(t.Context(), b, WriterSeq{})
				if err != nil {
					t.Fatal(err)
				}
				m.add(b, splitByShard(b, len(s.shards)), res)
			case op < 40:
				mustSeal(t, s)
				for range rng.IntN(8) {
					sums += keptSums(s)
					sh.countWhole(t, rng, s, m, step > 40)
				}
			case op < 42:
				if err := s.WaitForMerges(t.Context()); err != nil {
					t.Fatal(err)
				}
			case op < 43 && step > 40:
				sh.erase(t, rng, s, m)
			case op < 44 && step > 40:
				sh.purge(t, rng, s, m)
			case op < 45 && step > 40:
				sh.retain(t, rng, s, m)
			case op < 46 && step > 80:
				sh.putBelow(t, rng, s, m)
			default:
				q := sh.query(rng, m)
				if rng.IntN(2) == 0 {
					q.Last, q.Box = 0, record.Box{}
				}
				want := m.query(q)
				count, stats, err := s.Count(t.Context(), q)
				if err != nil || int(count) != len(want) {
					t.Fatalf("step %d: count %d, %v; want %d: %+v", step, count, err, len(want), q)
				}
				if q.View != record.ViewAll {
					used += stats.BlocksInside
				}
				compare(t, fmt.Sprintf("step %d: %+v", step, q), scanRows(t, s, q), want)
				kept += keptSuperseded(s)
			}
		}
	}
	if kept == 0 || used == 0 || sums == 0 {
		t.Errorf("%d superseded rows are kept, %d blocks were counted by them, %d sums were kept",
			kept, used, sums)
	}
}

// countWhole counts all readings, the latest or those of an earlier state, and may erase some.
func (sh shape) countWhole(t *testing.T, rng *rand.Rand, s *Store, m *model, erases bool) {
	t.Helper()
	q := sh.query(rng, m)
	if q.Last, q.Box = 0, (record.Box{}); q.View == record.ViewAll {
		q.View = record.ViewLatest
	}
	want := len(m.query(q))
	if n, _, err := s.Count(t.Context(), q); err != nil || int(n) != want {
		t.Fatalf("count %d, %v; want %d: %+v", n, err, want, q)
	}
	if erases && rng.IntN(8) == 0 {
		sh.erase(t, rng, s, m)
	}
}

// keptSums returns the superseded rows of the sums that the segments of a store keep.
func keptSums(s *Store) (rows int) {
	for _, sh := range s.shards {
		state := sh.Pin()
		for _, seg := range state.Sealed {
			if sum := seg.Superseded.Sum(); sum != nil {
				rows += sum.Rows
			}
		}
		state.Unpin()
	}
	return rows
}

// keptSuperseded returns how many superseded rows the segments of a store keep.
func keptSuperseded(s *Store) (rows int) {
	for _, sh := range s.shards {
		state := sh.Pin()
		for _, seg := range state.Sealed {
			for b := range seg.Index.Blocks() {
				if known := seg.Superseded.Of(uint32(b), seg.File); known != nil {
					rows += len(known.Positions)
				}
			}
		}
		state.Unpin()
	}
	return rows
}
