package index

import (
	"fmt"
	"math"
	"math/bits"
)

// Splice numbers the rows of segments whose acqs follow each other as those of one segment.
type Splice struct {
	ranks rankTable
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
// Cost: a few ns for each row.
func NewSplice(segments []*Segment, dropped [][]uint64) (*Splice, error) {
	s := &Splice{}
	var ranks rankBuilder
	last := int64(math.MinInt64)
	for i, seg := range segments {
		if i > 0 && seg.AcqOf(0) <= last {
			return nil, fmt.Errorf("segment %d starts at acq %d, not after %d",
				i, seg.AcqOf(0), last)
		}
		last = seg.AcqOf(seg.rows - 1)
		part := splicePart{base: ranks.rows, dropped: dropped[i]}
		if rows := uint64(part.base) + uint64(part.keep(seg, &ranks)); rows > maxRows {
			return nil, fmt.Errorf("%d rows, at most %d", rows, maxRows)
		}
		s.parts = append(s.parts, part)
	}
	s.ranks = ranks.finish()
	return s, nil
}

// keep adds the acqs of the rows of a segment that stay, and returns how many there are.
func (part *splicePart) keep(seg *Segment, ranks *rankBuilder) uint32 {
	kept, gone := uint32(0), uint32(0)
	part.before = make([]uint32, len(part.dropped))
	for w, word := range part.dropped {
		part.before[w] = gone
		gone += uint32(bits.OnesCount64(word))
	}
	var acqs []int64
	for group := range seg.ranks.groups() {
		acqs = seg.ranks.appendAcqs(acqs[:0], group)
		if part.dropped != nil {
			acqs = part.without(acqs, group<<groupShift)
		}
		ranks.add(acqs...)
		kept += uint32(len(acqs))
	}
	return kept
}

// without removes from acqs, the first of which is of a rank, those of rows that are dropped.
func (part *splicePart) without(acqs []int64, rank uint32) []int64 {
	keep := 0
	for i, acq := range acqs {
		at := rank + uint32(i)
		acqs[keep] = acq
		keep += int(^part.dropped[at>>6] >> (at & 63) & 1)
	}
	return acqs[:keep]
}

// Rows returns the number of rows that stay.
func (s *Splice) Rows() int { return int(s.ranks.rows) }

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
