package store

import (
	"math"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
)

// What retentions let be removed leaves the files by itself when they are merged. A segment that
// is in a removal whole is deleted unread. In others the removable rows rest until the first has
// done so for long enough, and then all that became removable meanwhile leave at once.

// maxRemovalChecks bounds what is known of a segment: beyond, all is checked again.
const maxRemovalChecks = 256

// nextExpired returns a segment that is to be rewritten because of removable rows, or nil.
func (s *Store) nextExpired(failed mergepolicy.Failures) (*shards.Shard, []*shards.Segment, error) {
	t, now := s.tombstones.Load(), s.opt.Now()
	return s.firstDue(failed, func(seg *shards.Segment) (bool, error) {
		for _, p := range removalsOver(seg, t, now) {
			if seg.LiesIn(&p.Box) {
				return true, nil // it is deleted unread
			}
			g, err := s.purgedFrom(seg, []*tombstone.Range{p})
			if err != nil {
				return false, err
			}
			if g.rows > 0 && (g.restedNs >= p.Removal.RestNs || p.Removal.EndNs() <= now) {
				return true, nil
			}
			recordRemovalCheck(seg, p, &g)
		}
		return false, nil
	})
}

// removalsOver returns the removals for which the segment may have to be rewritten now.
func removalsOver(seg *shards.Segment, t *tombstone.Set, nowNs int64) (by []*tombstone.Range) {
	x := &seg.Expiring
	if x.CheckedSet == t && nowNs < x.NextNs {
		return nil
	}
	x.CheckedSet, x.NextNs = t, math.MaxInt64
	for _, p := range t.Removable {
		if p.Kind != event.Retention || seg.HasNoneOf(p) {
			continue
		}
		if _, ok := seg.BoxInRanks(&p.Box); !ok {
			continue
		}
		if due := dueNs(seg, p); due <= nowNs || seg.LiesIn(&p.Box) {
			by = append(by, p)
		} else {
			x.NextNs = min(x.NextNs, due)
		}
	}
	if len(by) > 0 {
		x.CheckedSet = nil // until it is known what becomes of them
	}
	return by
}

// dueNs returns when the segment may have to be rewritten for a removal.
func dueNs(seg *shards.Segment, p *tombstone.Range) int64 {
	known, looked := seg.Expiring.Checks[p.Removal.Key]
	switch {
	case !looked || p.Removal.FloorNs >= known.FloorNs:
		return p.Removal.TimeNs
	case p.Removal.AcqNs == known.NoRowsForAcqNs:
		return math.MaxInt64
	}
	return p.Removal.EndNs()
}

// recordRemovalCheck records that no row of a removal has rested for long enough.
func recordRemovalCheck(seg *shards.Segment, p *tombstone.Range, g *purgedRows) {
	x, r := &seg.Expiring, &p.Removal
	if x.Checks == nil || len(x.Checks) > maxRemovalChecks {
		x.Checks = map[retention.RemovalKey]shards.RemovalCheck{}
	}
	found := shards.RemovalCheck{FloorNs: r.FloorNs + max(1, r.RestNs-g.restedNs)}
	if g.rows == 0 {
		found.NoRowsForAcqNs = r.AcqNs
	}
	x.Checks[r.Key] = found
}

// logRemovals are those whose rows are to leave the log, which holds those of quiet heads for as
// long as nothing comes. manifestMu guards them.
type logRemovals struct {
	newestNs int64 // acq of the newest one that was noted
	// dropLogAt is when, on the monotonic clock, files of the log up to file are removed; 0: never.
	dropLogAt int64
	file      uint64
}

// trackLogRemovals takes in removals that the log may hold rows of. The caller holds manifestMu, or
// opens the store.
func (s *Store) trackLogRemovals() {
	r := &s.logRemovals
	for _, t := range s.tombstones.Load().Removable {
		if t.Kind != event.Retention || t.AcqNs <= r.newestNs {
			continue
		}
		at := s.retentionClock.MonotonicNs() + t.Removal.RestNs
		if r.dropLogAt == 0 || at < r.dropLogAt {
			r.dropLogAt = max(1, at)
		}
	}
	r.newestNs = max(r.newestNs, s.tombstones.Load().NewestRemovable)
	if _, newest := s.endsOfLogFiles(); r.dropLogAt != 0 {
		r.file = max(r.file, newest)
	}
}

// dropRemovableFromLog makes removable rows leave the log and the heads, where they would stay
// while little comes. The committer calls it.
func (s *Store) dropRemovableFromLog() {
	if s.opt.keepSnapshot {
		return
	}
	s.manifestMu.Lock()
	r := &s.logRemovals
	due := r.dropLogAt != 0 && s.retentionClock.MonotonicNs() >= r.dropLogAt
	held := s.hasLoggedRows(r.file) // a file of then has rows
	if due {
		r.dropLogAt = 0
	}
	s.manifestMu.Unlock()
	if due && held {
		if err := s.dropPurgedFromLog(); err != nil {
			s.manifestMu.Lock()
			r.dropLogAt = s.retentionClock.MonotonicNs() // it is tried again
			s.manifestMu.Unlock()
		}
	}
}
