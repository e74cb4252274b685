package store

import (
	"context"
	"time"

	"github.com/pentad-db/pentad/node/store/shards"
)

const (
	// idleAfter is how long a store must be without puts before it runs idle merges.
	idleAfter = time.Minute
	// idleMergeShare is how many times larger the largest segment may be than the others of an idle
	// merge together. It bounds how often a row is rewritten if every pause leads to a merge.
	idleMergeShare = 4
	// idleSealShare: an idle store seals a head that has this fraction of SealRows. Fewer rows take
	// little memory, are found quickly, and would make a segment of a few blocks.
	idleSealShare = 16
)

// idleness tracks since when no row has come.
type idleness struct {
	rows  int64
	since time.Time
}

// lasts reports whether nothing has come for so long.
func (i *idleness) lasts(s *Store, long time.Duration) bool {
	if rows := s.counters.rows.Load(); rows != i.rows {
		*i = idleness{rows, time.Now()}
	}
	return time.Since(i.since) >= long
}

// sealIdle rotates the heads that are worth a segment, and reports whether there were any.
// Otherwise the replicas of a node would keep millions of rows in memory forever, where lookups are
// slower.
func (s *Store) sealIdle() (any bool) {
	_ = s.onCommitter(context.Background(), func() { // it fails when the store is closed
		for _, sh := range s.all {
			if sh.State.Load().Head.Rows() >= s.opt.idleSealRows {
				s.rotate(sh)
				any = true
			}
		}
	})
	return any
}

// hasImmutable reports whether a head waits to be sealed. An idle merge before that would have to
// be done again with its segment.
func (s *Store) hasImmutable() bool {
	for _, sh := range s.all {
		if len(sh.State.Load().Immutable) > 0 {
			return true
		}
	}
	return false
}

// nextIdleMerge returns the segments that a store at rest merges next.
func (s *Store) nextIdleMerge(failed failedRuns) (*shards.Shard, []*shards.Segment) {
	for _, sh := range s.all {
		for part := range undamaged(sh.State.Load().Sealed) {
			for same := range mergeable(part) {
				if run := idleRun(same, failed.may); run != nil {
					return sh, run
				}
			}
		}
	}
	return nil, nil
}

// idleRun returns the most neighbours that may be merged into one segment and of which none is
// idleMergeShare times as large as the others together, the fewest rows first.
func idleRun(
	sealed []*shards.Segment, may func(first *shards.Segment) bool,
) (best []*shards.Segment) {
	for from := range sealed {
		rows, bytes, largest := int64(0), int64(0), int64(0)
		for to := from; to < len(sealed); to++ {
			more := int64(sealed[to].Meta.Rows)
			rows, bytes = rows+more, bytes+sealed[to].File.Size()
			if rows > limitOf(sealed[from]) || bytes > maxMergedBytes {
				break
			}
			largest = max(largest, more)
			run := sealed[from : to+1]
			pays := len(run) > 1 && largest <= idleMergeShare*(rows-largest) && may(sealed[from])
			better := len(run) > len(best) || len(run) == len(best) && rows < rowsOf(best)
			if pays && better {
				best = run
			}
		}
	}
	return best
}
