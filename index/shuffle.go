package index

import (
	"fmt"
	"math"
)

// noRank stands for a row that a shuffle leaves out.
const noRank = math.MaxUint32

// NewShuffle is NewSplice for segments whose acqs lie among one another, and may be equal: their
// rows are numbered by acq, and those with the same by segment and rank.
//
// Errors: more rows than a segment holds.
// Cost: 4 bytes and some ns for each row and segment.
func NewShuffle(segments []*Segment, dropped [][]uint64) (*Splice, error) {
	s := &Splice{}
	rows := uint64(0)
	next := make([]rankWalk, len(segments))
	for i, seg := range segments {
		rows += uint64(seg.rows)
		next[i] = rankWalk{of: seg}
		s.parts = append(s.parts, splicePart{shuffled: make([]uint32, seg.rows)})
	}
	if rows > maxRows {
		return nil, fmt.Errorf("%d rows, at most %d", rows, maxRows)
	}
	last := int64(math.MinInt64)
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
			s.parts[from].shuffled[rank] = noRank
			continue
		}
		if s.rows > 0 && acq == last {
			s.ranks.shared = true
		}
		if !s.continues(s.rows, acq) {
			s.ranks.runs = append(s.ranks.runs, run{s.rows, acq})
		}
		s.parts[from].shuffled[rank] = s.rows
		s.rows, last = s.rows+1, acq
	}
	s.ranks.index(s.rows)
	return s, nil
}

// rankWalk goes through the ranks of a segment.
type rankWalk struct {
	of   *Segment
	rank uint32
	run  int // that holds the rank
}

func (w *rankWalk) done() bool { return w.rank == w.of.rows }

func (w *rankWalk) acqNs() int64 {
	r := w.of.ranks.runs[w.run]
	return r.acqNs + int64(w.rank-r.rank)
}

func (w *rankWalk) step() {
	w.rank++
	if runs := w.of.ranks.runs; w.run+1 < len(runs) && runs[w.run+1].rank == w.rank {
		w.run++
	}
}

// First returns the least rank that has the acq of a rank: where rows are cut by acq, those with
// the same stay together.
func (s *Splice) First(rank uint32) uint32 {
	if !s.ranks.shared {
		return rank
	}
	return s.ranks.below(s.ranks.acqOf(rank), s.rows)
}
