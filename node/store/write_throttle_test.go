package store

import (
	"testing"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/manifest"
)

// Only segments that merges still make fewer slow commits down: with as many as one likes of at
// least a quarter of the largest, which four of are never merged, nothing is behind.
func TestMostMergeable(t *testing.T) {
	most, putNs := uint32(maxMergedRows), int64(manifest.NoPut)
	f := func(small, large int, want int) {
		t.Helper()
		now := &readState{}
		add := func(count int, rows uint32) {
			for range count {
				now.sealed = append(now.sealed, &sealedSegment{
					meta: manifest.Segment{Rows: rows, PutAcqNs: putNs}, file: new(segment.Sealed)})
			}
		}
		add(small, most/4-1)
		add(large, most/4)
		all := []*shard{{}, {}}
		all[0].state.Store(&readState{})
		all[1].state.Store(now)
		if got := mostMergeable(all); got != want {
			t.Errorf("%d small, %d large segments: %d, want %d", small, large, got, want)
		}
	}
	f(0, 0, 0)
	f(24, 0, 24)
	f(0, 240, 0)
	f(25, 240, 25)
	most, putNs = maxBackdatedMergeRows, 1 // of rows from below
	f(27, 240, 27)
}
