package store

import (
	"math"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/tombstone"
)

// What retentions have released leaves the files by itself when they are merged. A segment that
// is in a release whole is deleted unread. In others the released rows rest until the first has
// done so for long enough, and then all that were released meanwhile leave at once.

// maxLooked bounds what is known of a segment: beyond, all is looked up again.
const maxLooked = 256

// expiring is what the merger knows of a segment and of policies.
type expiring struct {
	windowOf *tombstone.Set // sealedSegment.window is by this
	holds    map[retention.ScopeKey]bool
	looks    map[retention.ReleaseKey]look
	// Between looks at the same history nothing is due before nextNs.
	looked *tombstone.Set
	nextNs int64
}

// look is what was found in a segment.
type look struct {
	freeOf  int64 // no row is concerned by the release with this acq
	floorNs int64 // no row has rested for long enough before the floor is here
}

// nextExpired returns a segment that is to be rewritten because of what was released, or nil.
func (s *Store) nextExpired(failed mergepolicy.Failures) (*shard, []*sealedSegment, error) {
	h, now := s.tombstones.Load(), s.opt.Now()
	return s.firstDue(failed, func(seg *sealedSegment) (bool, error) {
		for _, p := range seg.expired(h, now) {
			if seg.liesIn(&p.Box) {
				return true, nil // it is deleted unread
			}
			g, err := s.purgedFrom(seg, []*tombstone.Range{p})
			if err != nil {
				return false, err
			}
			if g.rows > 0 && (g.restedNs >= p.Release.RestNs || p.Release.EndNs() <= now) {
				return true, nil
			}
			seg.noteLook(p, &g)
		}
		return false, nil
	})
}

// expired returns the releases for which the segment may have to be rewritten now.
func (seg *sealedSegment) expired(h *tombstone.Set, nowNs int64) (by []*tombstone.Range) {
	x := &seg.expiring
	if x.looked == h && nowNs < x.nextNs {
		return nil
	}
	x.looked, x.nextNs = h, math.MaxInt64
	for _, p := range h.Removable {
		if p.Kind != event.Retention || seg.isClean(p) {
			continue
		}
		if _, ok := seg.ranked(&p.Box); !ok {
			continue
		}
		if due := seg.dueNs(p); due <= nowNs || seg.liesIn(&p.Box) {
			by = append(by, p)
		} else {
			x.nextNs = min(x.nextNs, due)
		}
	}
	if len(by) > 0 {
		x.looked = nil // until it is known what becomes of them
	}
	return by
}

// dueNs returns when the segment may have to be rewritten for a release.
func (seg *sealedSegment) dueNs(p *tombstone.Range) int64 {
	known, looked := seg.expiring.looks[p.Release.Key]
	switch {
	case !looked || p.Release.FloorNs >= known.floorNs:
		return p.Release.TimeNs
	case p.Release.AcqNs == known.freeOf:
		return math.MaxInt64
	}
	return p.Release.EndNs()
}

// noteLook notes that no row of a release has rested for long enough.
func (seg *sealedSegment) noteLook(p *tombstone.Range, g *purgedRows) {
	x, r := &seg.expiring, &p.Release
	if x.looks == nil || len(x.looks) > maxLooked {
		x.looks = map[retention.ReleaseKey]look{}
	}
	found := look{floorNs: r.FloorNs + max(1, r.RestNs-g.restedNs)}
	if g.rows == 0 {
		found.freeOf = r.AcqNs
	}
	x.looks[r.Key] = found
}

// releases are those whose rows are to leave the log, which holds those of quiet heads for as long
// as nothing comes. manifestMu guards them.
type releases struct {
	known int64 // acq of the newest one that was noted
	// cleanAt is, on the monotonic clock, when the files of the log up to file are to go; 0: never.
	cleanAt int64
	file    uint64
}

// noteReleases notes releases that the log may hold rows of. The caller holds manifestMu, or opens
// the store.
func (s *Store) noteReleases() {
	r := &s.releases
	for _, h := range s.tombstones.Load().Removable {
		if h.Kind != event.Retention || h.AcqNs <= r.known {
			continue
		}
		at := s.retentionClock.MonotonicNs() + h.Release.RestNs
		if r.cleanAt == 0 || at < r.cleanAt {
			r.cleanAt = max(1, at)
		}
	}
	r.known = max(r.known, s.tombstones.Load().NewestRemovable)
	for file := range s.files {
		if r.cleanAt != 0 {
			r.file = max(r.file, file)
		}
	}
}

// emptyReleased makes what was released leave the log, and the heads, in which it would stay while
// little comes. The committer calls it.
func (s *Store) emptyReleased() {
	if s.opt.keepSnapshot {
		return
	}
	s.manifestMu.Lock()
	r := &s.releases
	due := r.cleanAt != 0 && s.retentionClock.MonotonicNs() >= r.cleanAt
	held := false // a file of then has rows
	for file, last := range s.files {
		for _, index := range last {
			held = held || file <= r.file && index > 0
		}
	}
	if due {
		r.cleanAt = 0
	}
	s.manifestMu.Unlock()
	if due && held {
		if err := s.emptyLog(); err != nil {
			s.manifestMu.Lock()
			r.cleanAt = s.retentionClock.MonotonicNs() // it is tried again
			s.manifestMu.Unlock()
		}
	}
}
