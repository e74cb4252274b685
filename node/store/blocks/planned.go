package blocks

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// PlannedSegment is a sealed segment on which a box was planned.
type PlannedSegment struct {
	*shards.Segment
	Plan  *index.Plan
	Ranks record.RangeSet // the box's acq as ranks of this segment
	Open  []*OpenBlock    // blocks that are open already, ascending
	// Known says of blocks, ascending, which of their rows have a newer version, as far as the user
	// of the segment knew when it was planned.
	Known []BlockSuperseded
	// Sum is what is known of all blocks together, in place of Known; nil: it is not used.
	Sum        *shards.SupersededSum
	tombstones []rankedTombstone
}

// BlockSuperseded is what is known of one block.
type BlockSuperseded struct {
	Block uint32
	*shards.SupersededRows
}

var planned = sync.Pool{New: func() any { return &PlannedSegment{Plan: new(index.Plan)} }}

// Plans are memory for plans.
var Plans = sync.Pool{New: func() any { return new(index.Plan) }}

// Begin is Plan in the memory of a segment that was planned before, or is new.
func (seg *PlannedSegment) Begin(
	sealed *shards.Segment, box *record.Box, tombstones []*tombstone.Range,
) {
	seg.Segment = sealed
	sealed.Index.Plan(box, seg.Plan)
	seg.Ranks = seg.Plan.Ranks
	clear(seg.tombstones)
	seg.tombstones = seg.tombstones[:0]
	seg.forgetSuperseded()
	if len(tombstones) > 0 {
		seg.applyTombstones(tombstones)
	}
}

// RanksToAcqs turns the ranks that a block stores into acquisition times.
//
// Errors: *durable.CorruptError for ranks that the segment does not have.
func (seg *PlannedSegment) RanksToAcqs(ranks []int64) error {
	rows := uint64(seg.Index.Rows())
	for _, rank := range ranks {
		if uint64(rank) >= rows {
			return &durable.CorruptError{File: seg.File.Path(),
				Reason: fmt.Sprintf("a block holds rank %d of %d rows", rank, rows)}
		}
	}
	seg.Index.ReplaceByAcqs(ranks)
	return nil
}

// RowsIn estimates how many rows of a block lie in a box, as if they were spread evenly.
func (seg *PlannedSegment) RowsIn(box *record.Box, c index.Candidate) int {
	info := seg.Index.Block(c.Block)
	rows := float64(info.Rows)
	for rest := c.Residual &^ ResidualTombstones; rest != 0; rest &= rest - 1 {
		d := record.Dim(bits.TrailingZeros8(rest))
		set := box[d]
		if d == record.Acq {
			set = seg.Ranks
		}
		if set = set.Near(info.Min[d], info.Max[d]); len(set) > fewRanges {
			continue
		}
		least, end, in := float64(info.Min[d]), float64(info.Max[d])+1, 0.0
		for _, r := range set {
			in += max(0, min(float64(r.To), end)-max(float64(r.From), least))
		}
		rows *= in / (end - least)
	}
	return int(rows)
}

// fewRanges of a dimension that are near a block are looked at to tell how many of its rows are
// read.
const fewRanges = 16

// Plan plans a box on a segment, without what some range tombstones, oldest first, hide. The caller
// frees it.
func Plan(
	sealed *shards.Segment, box *record.Box, tombstones []*tombstone.Range,
) *PlannedSegment {
	seg := planned.Get().(*PlannedSegment)
	seg.Begin(sealed, box, tombstones)
	return seg
}

// Free ends the use of a segment that Plan returned: its memory is used again.
func (seg *PlannedSegment) Free() {
	seg.Segment = nil
	clear(seg.Open)
	seg.Open = seg.Open[:0]
	seg.forgetSuperseded()
	planned.Put(seg)
}

func (seg *PlannedSegment) forgetSuperseded() {
	clear(seg.Known)
	seg.Known, seg.Sum = seg.Known[:0], nil
}

// IsWhole reports whether all blocks of the segment lie inside the box, and no range tombstone
// meets it.
func (seg *PlannedSegment) IsWhole() bool {
	return seg.Plan.Stats.Inside == seg.Index.Blocks() && len(seg.tombstones) == 0
}

// AllKnown yields what is known of blocks.
func (seg *PlannedSegment) AllKnown(yield func(*shards.SupersededRows) bool) {
	for i := range seg.Known {
		if !yield(seg.Known[i].SupersededRows) {
			return
		}
	}
}

// SupersededOf returns what is known of a block, nil for nothing.
func (seg *PlannedSegment) SupersededOf(number uint32) *shards.SupersededRows {
	i, ok := slices.BinarySearchFunc(seg.Known, number,
		func(s BlockSuperseded, number uint32) int { return cmp.Compare(s.Block, number) })
	if !ok {
		return nil
	}
	return seg.Known[i].SupersededRows
}
