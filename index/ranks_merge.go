package index

import (
	"fmt"
	"math"
)

// noRank is the output rank of a row that is left out.
const noRank = math.MaxUint32

// MergeRanks is ConcatRanks for segments whose acqs overlap and may be equal: rows are ordered by
// acq, and equal ones by segment and rank.
//
// Errors: more rows than a segment holds.
// Cost: 4 bytes and some ns for each row and segment.
func MergeRanks(segments []*Segment, dropped [][]uint64) (*RankMap, error) {
	s := &RankMap{}
	var ranks rankBuilder
	rows := uint64(0)
	next := make([]rankWalk, len(segments))
	for i, seg := range segments {
		rows += uint64(seg.rows)
		next[i] = rankWalk{of: seg}
		next[i].enter()
		s.inputs = append(s.inputs, inputRanks{merged: make([]uint32, seg.rows)})
	}
	if rows > maxRows {
		return nil, fmt.Errorf("%d rows, at most %d", rows, maxRows)
	}
	for range rows {
		from := -1
		for i := range next {
			if !next[i].done() && (from < 0 || next[i].acqNs() < next[from].acqNs()) {
				from = i
			}
		}
		walk := &next[from]
		rank, acq := walk.rank, walk.acqNs()
		walk.step()
		if drop := dropped[from]; drop != nil && drop[rank>>6]>>(rank&63)&1 != 0 {
			s.inputs[from].merged[rank] = noRank
			continue
		}
		s.inputs[from].merged[rank] = ranks.rows
		ranks.add(acq)
	}
	s.ranks = ranks.finish()
	return s, nil
}

// rankWalk goes through the ranks of a segment.
type rankWalk struct {
	of   *Segment
	rank uint32
	acqs []int64 // of the group that the rank is in
}

func (w *rankWalk) done() bool { return w.rank == w.of.rows }

func (w *rankWalk) acqNs() int64 { return w.acqs[w.rank&(groupRanks-1)] }

func (w *rankWalk) step() {
	w.rank++
	w.enter()
}

// enter reads the group that begins at the rank, if one does.
func (w *rankWalk) enter() {
	if w.rank&(groupRanks-1) == 0 && !w.done() {
		w.acqs = w.of.ranks.appendAcqs(w.acqs[:0], w.rank>>groupShift)
	}
}

// First returns the least rank that has the acq of a rank: where rows are cut by acq, those with
// the same stay together.
func (s *RankMap) First(rank uint32) uint32 {
	if !s.ranks.shared {
		return rank
	}
	return s.ranks.below(s.ranks.acqOf(rank))
}
