package index

import (
	"fmt"
	"math"
	"math/bits"
)

// Splice numbers the rows of segments whose acqs follow each other as those of one segment.
type Splice struct {
	ranks rankTable
	rows  uint32
	parts []splicePart
}

// splicePart turns the ranks of one input into those of the output.
type splicePart struct {
	shuffled []uint32 // of a shuffle: the rank in the output, or noRank; nil for a splice

	base    uint32   // rank of its first row that stays
	dropped []uint64 // bitmap by rank; nil for none
	before  []uint32 // dropped rows before each word of dropped
}

// NewSplice splices segments, the oldest first, leaving out the rows in dropped: per segment a
// bitmap by rank, or nil.
//
// Errors: acqs that do not follow each other, and more rows than a segment holds.
// Cost: a few ns for each run of consecutive acqs; where rows are dropped, for each row.
func NewSplice(segments []*Segment, dropped [][]uint64) (*Splice, error) {
	s := &Splice{}
	rows, last := uint64(0), int64(math.MinInt64)
	for i, seg := range segments {
		if i > 0 && seg.AcqOf(0) <= last {
			return nil, fmt.Errorf("segment %d starts at acq %d, not after %d",
				i, seg.AcqOf(0), last)
		}
		last = seg.AcqOf(seg.rows - 1)
		s.ranks.shared = s.ranks.shared || seg.ranks.shared
		part := splicePart{base: uint32(rows), dropped: dropped[i]}
		if part.dropped == nil {
			s.append(seg, part.base)
			rows += uint64(seg.rows)
		} else {
			rows = uint64(part.base) + uint64(s.appendKept(seg, &part))
		}
		if rows > maxRows {
			return nil, fmt.Errorf("%d rows, at most %d", rows, maxRows)
		}
		s.parts = append(s.parts, part)
	}
	s.rows = uint32(rows)
	s.ranks.index(s.rows)
	return s, nil
}

// append adds the acqs of a segment of which every row stays.
func (s *Splice) append(seg *Segment, base uint32) {
	for i, r := range seg.ranks.runs {
		if i == 0 && s.continues(base, r.acqNs) {
			continue
		}
		s.ranks.runs = append(s.ranks.runs, run{base + r.rank, r.acqNs})
	}
}

// continues reports whether acq is the one after the last, at rank.
func (s *Splice) continues(rank uint32, acqNs int64) bool {
	if len(s.ranks.runs) == 0 {
		return false
	}
	r := s.ranks.runs[len(s.ranks.runs)-1]
	return acqNs == r.acqNs+int64(rank-r.rank)
}

// appendKept adds the acqs of the rows that stay and returns how many there are.
func (s *Splice) appendKept(seg *Segment, part *splicePart) uint32 {
	kept, gone := uint32(0), uint32(0)
	part.before = make([]uint32, len(part.dropped))
	for w, word := range part.dropped {
		part.before[w] = gone
		gone += uint32(bits.OnesCount64(word))
	}
	for rank := range seg.rows {
		if part.dropped[rank>>6]>>(rank&63)&1 != 0 {
			continue
		}
		acq := seg.AcqOf(rank)
		if !s.continues(part.base+kept, acq) {
			s.ranks.runs = append(s.ranks.runs, run{part.base + kept, acq})
		}
		kept++
	}
	return kept
}

// Rows returns the number of rows that stay.
func (s *Splice) Rows() int { return int(s.rows) }

// AcqOf returns the acquisition time of a rank of the splice.
func (s *Splice) AcqOf(rank uint32) int64 { return s.ranks.acqOf(rank) }

// Rank returns the rank that a row of segment i has in the splice; ok is false where the row is
// left out.
func (s *Splice) Rank(i int, rank uint32) (spliced uint32, ok bool) {
	part := &s.parts[i]
	if part.shuffled != nil {
		return part.shuffled[rank], part.shuffled[rank] != noRank
	}
	if part.dropped == nil {
		return part.base + rank, true
	}
	word, bit := rank>>6, rank&63
	if part.dropped[word]>>bit&1 != 0 {
		return 0, false
	}
	below := bits.OnesCount64(part.dropped[word] & (1<<bit - 1))
	return part.base + rank - part.before[word] - uint32(below), true
}
