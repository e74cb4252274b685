package index

import (
	"fmt"
	"math"
	"math/bits"
)

// RankMap maps the ranks of the rows of some input segments to ranks of the segment that a merge
// makes of them.
type RankMap struct {
	ranks  rankTable
	inputs []inputRanks
}

// inputRanks turns the ranks of one input into those of the output.
type inputRanks struct {
	merged []uint32 // after MergeRanks: rank -> rank in the output, or noRank; else nil

	base    uint32   // rank in the output of its first row that stays
	dropped []uint64 // bitmap by rank; nil for none
	before  []uint32 // dropped rows before each word of dropped
}

// ConcatRanks maps the ranks of segments whose acqs follow each other, the oldest first. It leaves
// out the rows in dropped: for each segment a bitmap by rank, or nil.
//
// Errors: acqs that do not follow each other, and more rows than a segment holds.
// Cost: a few ns for each row.
func ConcatRanks(segments []*Segment, dropped [][]uint64) (*RankMap, error) {
	s := &RankMap{}
	var ranks rankBuilder
	last := int64(math.MinInt64)
	for i, seg := range segments {
		if i > 0 && seg.AcqOf(0) <= last {
			return nil, fmt.Errorf("segment %d starts at acq %d, not after %d",
				i, seg.AcqOf(0), last)
		}
		last = seg.AcqOf(seg.rows - 1)
		part := inputRanks{base: ranks.rows, dropped: dropped[i]}
		if rows := uint64(part.base) + uint64(part.keep(seg, &ranks)); rows > maxRows {
			return nil, fmt.Errorf("%d rows, at most %d", rows, maxRows)
		}
		s.inputs = append(s.inputs, part)
	}
	s.ranks = ranks.finish()
	return s, nil
}

// keep adds the acqs of the rows of a segment that stay, and returns how many there are.
func (part *inputRanks) keep(seg *Segment, ranks *rankBuilder) uint32 {
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
func (part *inputRanks) without(acqs []int64, rank uint32) []int64 {
	keep := 0
	for i, acq := range acqs {
		at := rank + uint32(i)
		acqs[keep] = acq
		keep += int(^part.dropped[at>>6] >> (at & 63) & 1)
	}
	return acqs[:keep]
}

// Rows returns the number of rows that stay.
func (s *RankMap) Rows() int { return int(s.ranks.rows) }

// AcqOf returns the acquisition time of a merged rank.
func (s *RankMap) AcqOf(rank uint32) int64 { return s.ranks.acqOf(rank) }

// Shift returns by how much the merged ranks of all rows of segment i are higher than those in it,
// false where that is not the same for all.
func (s *RankMap) Shift(i int) (shift uint32, ok bool) {
	part := &s.inputs[i]
	return part.base, part.merged == nil && part.dropped == nil
}

// Rank returns the merged rank of a row of segment i; ok is false where the row is
// left out.
func (s *RankMap) Rank(i int, rank uint32) (merged uint32, ok bool) {
	part := &s.inputs[i]
	if part.merged != nil {
		return part.merged[rank], part.merged[rank] != noRank
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
