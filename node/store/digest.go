package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/sdk/record"
)

// Digest returns the digests of the rows of a box, all versions, in slices of acq between cuts,
// which ascend up to the horizon at most. The box must not constrain acq; without moids it has also
// the reserved ones. Purged says how far
// purges and retentions have changed the box, as in [ScanStats].
//
// Errors: *record.InvalidError; as with [Store.Scan].
// Cost: a scan, and some 20 ns a row.
func (s *Store) Digest(
	ctx context.Context, box record.Box, cuts []int64,
) (slicesOf []digest.Slice, historyChangedAcqNs int64, err error) {
	return s.DigestSelected(ctx, box, "", cuts)
}

// DigestSelected is [Store.Digest] of the devices that a selector chooses, by their descriptions as
// of the last cut, so that another store with the same rows gives the same; an empty one chooses
// all.
func (s *Store) DigestSelected(
	ctx context.Context, box record.Box, selector string, cuts []int64,
) (slicesOf []digest.Slice, historyChangedAcqNs int64, err error) {
	q := &record.Query{Box: box, Verify: true} // it says that another store has the same
	q.Box.IncludeReserved()
	if err := digest.CheckCuts(&box, cuts); err != nil {
		return nil, 0, err
	}
	h, err := s.ExtendHorizon(ctx)
	if last := cuts[len(cuts)-1]; err == nil && last > h {
		err = &record.InvalidError{Part: "acq", Reason: record.OutOfRange, Row: -1,
			Detail: fmt.Sprintf("the last slice ends at %d, above the horizon %d: it is not "+
				"closed yet", last, h)}
	}
	if err != nil {
		return nil, 0, err
	}
	q.Box[record.Acq] = record.RangeSet{{From: cuts[0], To: cuts[len(cuts)-1]}}
	if err := q.Normalize(); err != nil {
		return nil, 0, err
	}
	if err := record.NormalizeSelect(&selector, &q.Box); err != nil {
		return nil, 0, err
	}
	s.scanning.RLock()
	some, _, err := s.selectInto(ctx, &q.Box, selector, cuts[len(cuts)-1])
	s.scanning.RUnlock()
	if err != nil || !some {
		return digest.Slices(cuts), 0, err
	}
	var all [][]digest.Slice
	stats, err := s.Scan(ctx, q, func(int) (Sink, error) {
		d := &digest.Adder{Slices: digest.Slices(cuts)}
		all = append(all, d.Slices)
		return d.Add, nil
	})
	if err != nil {
		return nil, 0, err
	}
	slicesOf = digest.Slices(cuts)
	for _, part := range all {
		for i := range part {
			slicesOf[i].Merge(&part[i])
		}
	}
	return slicesOf, stats.HistoryChangedAcqNs, nil
}

// Cut divides the acqs of a range so that each slice holds about so many stored rows at most: those
// of all devices, and also those that events hide. It returns the cuts, from the first acq to the
// last. Where digest.MaxSlices would not do, the last cut lies before the end.
//
// Errors: ErrBelow, because a copy goes on from the last cut; ErrClosed, ctx.Err().
// Cost: some 100 us a slice; no block is read.
func (s *Store) Cut(ctx context.Context, fromNs, toNs int64, rows uint64) ([]int64, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	if s.closed.Load() {
		return nil, ErrClosed
	}
	rows = max(rows, 1)
	cuts := []int64{fromNs}
	if fromNs >= toNs {
		return cuts, nil
	}
	var all rowCounters
	for _, sh := range s.shards {
		state := sh.Pin()
		defer state.Unpin()
		if !sh.Backdated.State.Load().IsEmpty() {
			return nil, ErrBelow
		}
		for _, seg := range state.Sealed {
			all.segments = append(all.segments, seg.Index)
		}
		state.EachHead(func(h *index.Head) { all.heads = append(all.heads, h) })
	}
	end, done := all.below(toNs), all.below(fromNs)
	for done+rows < end && len(cuts) < digest.MaxSlices {
		last := cuts[len(cuts)-1]
		// The first acq with which the slice would have more rows.
		low, high := last+1, toNs-1
		for low < high { // the range may be wider than an int
			middle := low + int64(uint64(high-low)/2)
			if all.below(middle+1) > done+rows {
				high = middle
			} else {
				low = middle + 1
			}
		}
		cuts, done = append(cuts, low), all.below(low)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if end-done > rows {
		return slices.Clip(cuts), nil
	}
	return append(cuts, toNs), nil
}

// rowCounters is everything that holds rows.
type rowCounters struct {
	segments []*index.Segment
	heads    []*index.Head
}

// below returns how many rows have an acq below an acq.
func (s *rowCounters) below(acqNs int64) (rows uint64) {
	for _, seg := range s.segments {
		_, hi := seg.RankRange(acqNs, acqNs)
		rows += uint64(hi)
	}
	for _, h := range s.heads {
		rows += uint64(h.CountBelow(acqNs))
	}
	return rows
}
