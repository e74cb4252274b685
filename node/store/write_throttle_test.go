package store

import (
	"testing"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
)

// Only segments that merges still make fewer slow commits down: with as many as one likes of at
// least a quarter of the largest, which four of are never merged, nothing is behind.
func TestBacklogLeavesOutWhatIsNotMerged(t *testing.T) {
	most, putNs := uint32(maxMergedRows), int64(manifest.NoPut)
	f := func(small, large int, want int64) {
		t.Helper()
		now := &shards.State{}
		add := func(count int, rows uint32) {
			for range count {
				now.Sealed = append(now.Sealed, &shards.Segment{
					Meta: manifest.Segment{Rows: rows, PutAcqNs: putNs}, File: new(segment.Sealed)})
			}
		}
		add(small, most/4-1)
		add(large, most/4)
		s := &Store{all: []*shards.Shard{{}, {}}}
		s.all[0].State.Store(&shards.State{})
		s.all[1].State.Store(now)
		s.setBacklog()
		if got := s.backlog.Load(); got != want {
			t.Errorf("%d small, %d large segments: backlog %d, want %d", small, large, got, want)
		}
	}
	f(0, 0, 0)
	f(throttleFrom, 0, 0)
	f(throttleFrom+3, 0, 3)
	f(0, 10*throttleFrom, 0)
	f(throttleFrom, 10*throttleFrom, 0)
	f(throttleFrom+1, 10*throttleFrom, 1)
	most, putNs = maxBackdatedMergeRows, 1 // of rows from below
	f(throttleFrom+3, 10*throttleFrom, 3)
}
