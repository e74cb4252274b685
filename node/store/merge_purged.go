package store

import (
	"math"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// tombstonesOver returns what may be removed and may concern rows of the segment.
func tombstonesOver(seg *shards.Segment, t *tombstone.Set) []*tombstone.Range {
	var all []*tombstone.Range
	for _, p := range t.Removable {
		if _, ok := seg.BoxInRanks(&p.Box); ok && !seg.HasNoneOf(p) {
			all = append(all, p)
		}
	}
	return all
}

// purgedRows says which rows of a segment a merge leaves out.
type purgedRows struct {
	ranks []uint64 // bitmap by rank; nil for none
	rows  int
	// counts are the rows for each purge; those that several concern are the oldest one's.
	counts []manifest.PurgedRows
	// restedNs is for how long the first of the rows that retentions concern has been removable, as
	// their floors have moved since.
	restedNs int64
}

// purgedFrom finds the rows of a segment that some tombstones cover.
func (s *Store) purgedFrom(seg *shards.Segment, by []*tombstone.Range) (g purgedRows, err error) {
	if len(by) == 0 {
		return g, nil
	}
	m := merger{run: []*shards.Segment{seg}}
	err = segment.CatchPageFaults(func() error {
		g, err = s.findPurged(seg, by)
		return err
	}, m.files)
	return g, s.damaged.Note(err)
}

func (s *Store) findPurged(seg *shards.Segment, by []*tombstone.Range) (purgedRows, error) {
	var g purgedRows
	r := new(blocks.Reader)
	r.CopyBlocks = true // its ranks decide what goes
	var keys record.Batch
	part := &blocks.PlannedSegment{Plan: new(index.Plan)}
	for _, h := range by {
		if h.KeptSlots.To == 0 && seg.LiesIn(&h.Box) {
			return allPurged(seg, h, g), nil
		}
		before := g.rows
		if g.ranks == nil {
			g.ranks = make([]uint64, (seg.Index.Rows()+63)/64)
		}
		r.Box = &h.Box
		part.Begin(seg, r.Box, nil)
		s.readahead.Clock.Refresh()
		s.readahead.Prefetch(seg, part.Plan.Candidates)
		for _, c := range part.Plan.Candidates {
			if s.closed.Load() {
				return g, ErrClosed
			}
			info, err := r.Open(part, c)
			if err != nil {
				return g, err
			}
			r.Chosen = r.Choose(part, info, c.Residual)
			if h.KeptSlots.To > 0 {
				r.Chosen = r.OutsideSlots(h.KeptSlots, r.Chosen)
			}
			keys.Reset()
			if err := r.Block.Gather(r.Chosen, true, &keys); err != nil {
				return g, err
			}
			for i, rank := range keys.AcqNs {
				g.add(uint64(rank))
				if h.Kind == event.Retention {
					acqNs := seg.Index.AcqOf(uint32(rank))
					g.restedNs = max(g.restedNs, h.Removal.Rested(keys.CapNs[i], acqNs))
				}
			}
		}
		if h.Kind == event.Purge && g.rows > before {
			g.counts = append(g.counts,
				manifest.PurgedRows{AcqNs: h.AcqNs, Rows: uint64(g.rows - before)})
		}
	}
	if g.rows == 0 {
		g.ranks = nil
	}
	return g, nil
}

func (g *purgedRows) add(rank uint64) {
	word, bit := &g.ranks[rank>>6], uint64(1)<<(rank&63)
	if *word&bit == 0 {
		*word |= bit
		g.rows++
	}
}

// allPurged adds the rows that g does not have yet.
func allPurged(seg *shards.Segment, t *tombstone.Range, g purgedRows) purgedRows {
	rows := seg.Index.Rows()
	if t.Kind == event.Purge && g.rows < rows {
		g.counts = append(g.counts,
			manifest.PurgedRows{AcqNs: t.AcqNs, Rows: uint64(rows - g.rows)})
	}
	g.rows, g.ranks = rows, make([]uint64, (rows+63)/64)
	for i := range g.ranks {
		g.ranks[i] = math.MaxUint64
	}
	return g
}

// nextPurged returns a segment that holds rows of a purge, or nil.
func (s *Store) nextPurged(failed mergepolicy.Failures) (*shards.Shard, []*shards.Segment, error) {
	t := s.tombstones.Load()
	newest := t.NewestPurge
	return s.firstDue(failed, func(seg *shards.Segment) (bool, error) {
		if seg.PurgedTo.Load() >= newest {
			return false, nil
		}
		by := slices.DeleteFunc(tombstonesOver(seg, t), func(t *tombstone.Range) bool {
			return t.Kind != event.Purge
		})
		g, err := s.purgedFrom(seg, by)
		if err == nil && g.rows == 0 {
			seg.PurgedTo.Store(newest)
		}
		return g.rows > 0, err
	})
}

// firstDue returns the first segment that is due, leaving out those that failed lately.
func (s *Store) firstDue(
	failed mergepolicy.Failures, isDue func(seg *shards.Segment) (bool, error),
) (*shards.Shard, []*shards.Segment, error) {
	for _, sh := range s.allShards {
		for _, seg := range sh.State.Load().Sealed {
			if !failed.MayRetry(seg.Meta.ID, seg.Damaged.Load()) {
				continue
			}
			due, err := isDue(seg)
			if due || err != nil {
				return sh, []*shards.Segment{seg}, err
			}
		}
	}
	return nil, nil, nil
}

// dropPurged removes the rows of a head that removable tombstones cover, and their flags.
func (s *Store) dropPurged(
	rows *record.Batch, flags []uint64, t *tombstone.Set,
) (removed []manifest.PurgedRows) {
	if len(t.Removable) == 0 || rows.Len() == 0 {
		return nil
	}
	counts := map[int64]uint64{}
	keep := 0
	for i := range rows.Len() {
		if by := tombstone.FirstOver(t.Removable, rows.Key(i)); by != nil {
			if by.Kind == event.Purge {
				counts[by.AcqNs]++
			}
			continue
		}
		flag := flags[i>>6] >> (i & 63) & 1
		flags[keep>>6] = flags[keep>>6]&^(1<<(keep&63)) | flag<<(keep&63)
		if keep != i {
			rows.Move(keep, i)
		}
		keep++
	}
	s.counters.purgedRows.Add(int64(rows.Len() - keep))
	rows.Truncate(keep)
	for acq, n := range counts {
		removed = append(removed, manifest.PurgedRows{AcqNs: acq, Rows: n})
	}
	return removed
}
