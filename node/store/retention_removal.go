package store

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// EventsWithRemovals is Events, and sets Removal of retentions.
//
// Cost: a look at the directory of each segment that holds such rows.
func (s *Store) EventsWithRemovals() []event.Event {
	now, ran := s.opt.Now(), s.retentionClock.Ran()
	s.manifestMu.Lock()
	m := s.manifest
	all := slices.DeleteFunc(slices.Clone(m.Events), func(e event.Event) bool {
		return e.Kind == event.Split
	})
	for i := range m.Policies {
		p := &m.Policies[i]
		removals := p.Removals(now, m.Steps.RanNs+ran)
		for i, e := range p.Events() {
			if e.Removal = removals[i]; p.Held || m.Steps.Held {
				e.Removal = &event.RemovalForecast{}
			}
			all = append(all, e)
		}
	}
	s.manifestMu.Unlock()
	slices.SortStableFunc(all, func(a, b event.Event) int { return cmp.Compare(a.AcqNs, b.AcqNs) })
	for i := range all {
		if h, ok := tombstone.Of(&all[i]); ok && all[i].Removal != nil {
			all[i].Removal.Rows, all[i].Removal.Bytes = s.estimateRows(&h.Box)
		}
	}
	return all
}

// estimateRows returns how many rows of a box are stored, about, and what they take.
func (s *Store) estimateRows(box *record.Box) (rows, bytes uint64) {
	s.scanning.RLock() // no segment is unmapped meanwhile
	defer s.scanning.RUnlock()
	if s.closed.Load() {
		return 0, 0
	}
	for _, sh := range s.allShards {
		state := sh.Pin()
		for _, seg := range state.Sealed {
			if n := estimateSegmentRows(seg, box); n > 0 {
				rows += n
				bytes += uint64(float64(seg.File.Size()) * float64(n) / float64(seg.Meta.Rows))
			}
		}
		state.EachHead(func(h *index.Head) {
			n := uint64(h.Count(box, math.MaxInt64))
			rows += n
			bytes += n * uint64(h.Bytes()) / uint64(max(1, h.Rows()))
		})
		state.Unpin()
	}
	return rows, bytes
}

// estimateSegmentRows counts the rows of blocks that lie in a box, and half of those that may.
func estimateSegmentRows(seg *shards.Segment, box *record.Box) (rows uint64) {
	ranked, ok := seg.BoxInRanks(box)
	if !ok {
		return 0
	}
	part := &blocks.PlannedSegment{Plan: new(index.Plan)}
	err := segment.CatchPageFaults(func() error {
		part.Begin(seg, box, nil)
		return nil
	}, (&merger{run: []*shards.Segment{seg}}).files)
	if err != nil {
		return 0
	}
	for _, c := range part.Plan.Candidates {
		info := seg.Index.Block(c.Block)
		switch all, some := blocks.Covers(&ranked, info); {
		case all:
			rows += uint64(info.Rows)
		case some:
			rows += uint64(info.Rows+1) / 2
		}
	}
	return rows
}

// retentionProblems are of retentions that wait for a clock.
func (s *Store) retentionProblems() []health.Problem {
	text, left := s.retentionClock.Deviation()
	if text == "" {
		return nil
	}
	s.manifestMu.Lock()
	some := slices.ContainsFunc(s.manifest.Policies, func(p retention.Policy) bool {
		return !p.Removed() && !p.Held
	})
	held := s.manifest.Steps.Held
	s.manifestMu.Unlock()
	if !some || held {
		return nil
	}
	return []health.Problem{{Code: "retention_waits", Message: text + ", so " +
		"retentions hide and remove only what is due by that time; it is followed after another " +
		left.Round(time.Minute).String(),
		Advice: "if the clock is wrong, put it right; if it is right, and the node was down, " +
			"`pentad retention resume --everything --trust-clock` lets retentions go on at once"}}
}
