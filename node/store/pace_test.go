package store

import (
	"testing"

	"github.com/pentad-db/pentad/node/segment"
)

// Only segments that merges still make fewer slow commits down: with as many as one likes of at
// least a quarter of the largest, which four of are never merged, nothing is behind.
func TestBacklogLeavesOutWhatIsNotMerged(t *testing.T) {
	most, putNs := uint32(maxMergedRows), int64(noPut)
	f := func(small, large int, want int64) {
		t.Helper()
		now := &snapshot{}
		add := func(count int, rows uint32) {
			for range count {
				now.sealed = append(now.sealed, &sealedSegment{
					meta: segmentMeta{Rows: rows, PutAcqNs: putNs}, file: new(segment.Sealed)})
			}
		}
		add(small, most/4-1)
		add(large, most/4)
		s := &Store{all: []*shard{{}, {}}}
		s.all[0].snapshot.Store(&snapshot{})
		s.all[1].snapshot.Store(now)
		s.setBacklog()
		if got := s.backlog.Load(); got != want {
			t.Errorf("%d small, %d large segments: backlog %d, want %d", small, large, got, want)
		}
	}
	f(0, 0, 0)
	f(calmSegments, 0, 0)
	f(calmSegments+3, 0, 3)
	f(0, 10*calmSegments, 0)
	f(calmSegments, 10*calmSegments, 0)
	f(calmSegments+1, 10*calmSegments, 1)
	most, putNs = maxShuffledRows, 1 // of rows from below
	f(calmSegments+3, 10*calmSegments, 3)
}
