package store

import (
	"context"
	"time"

	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/shards"
)

const (
	// idleAfter is how long a store must be without puts before it runs idle merges.
	idleAfter = time.Minute
	// idleSealShare: an idle store seals a head that has this fraction of SealRows. Fewer rows take
	// little memory, are found quickly, and would make a segment of a few blocks.
	idleSealShare = 16
)

// idleness tracks since when no row has come.
type idleness struct {
	rows  int64
	since time.Time
}

// isIdleFor reports whether nothing has come for so long.
func (i *idleness) isIdleFor(s *Store, long time.Duration) bool {
	if rows := s.counters.rows.Load(); rows != i.rows {
		*i = idleness{rows, time.Now()}
	}
	return time.Since(i.since) >= long
}

// rotateIdle rotates the heads that are worth a segment, and reports whether there were any.
// Otherwise the replicas of a node would keep millions of rows in memory forever, where lookups are
// slower.
func (s *Store) rotateIdle() (any bool) {
	_ = s.onCommitter(context.Background(), func() { // it fails when the store is closed
		for _, sh := range s.allShards {
			if sh.State.Load().Head.Rows() >= s.opt.idleSealRows {
				any = s.rotate(sh) || any
			}
		}
	})
	return any
}

// hasImmutable reports whether a head waits to be sealed. An idle merge before that would have to
// be done again with its segment.
func (s *Store) hasImmutable() bool {
	for _, sh := range s.allShards {
		if len(sh.State.Load().Immutable) > 0 {
			return true
		}
	}
	return false
}

// nextIdleMerge returns the segments that a store at rest merges next.
func (s *Store) nextIdleMerge(failed mergepolicy.Failures) (*shards.Shard, []*shards.Segment) {
	for _, sh := range s.allShards {
		sealed := sh.State.Load().Sealed
		if run := mergepolicy.Idle(policyOf(sealed, failed)); !run.IsNone() {
			return sh, sealed[run.From:run.To]
		}
	}
	return nil, nil
}
