package index

import (
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// shapedWidth is how many times as wide in time as a block the one may be that clustering makes, if
// the block is to be as good. Cuts halve, so blocks of one unit are up to the square root of 2 off.
const shapedWidth = 1.4

// ShapedBlocks finds the blocks of segments that have the shape of those that clustering all rows
// of these segments makes: where readings are many, blocks cover the same time in segments of any
// size.
type ShapedBlocks struct {
	blockRows int
	rows      int
	series    int // of the segment with most of them; 0: unknown
	pairs     map[[2]int32]*pairShape
}

// pairShape is the rows on time of one tenant and quantity.
type pairShape struct {
	rows         int
	capLo, capHi int64
	leastNs      float64 // that a block covers
}

// NewShapedBlocks returns one without segments.
func NewShapedBlocks(opt Options) *ShapedBlocks {
	return &ShapedBlocks{blockRows: opt.withDefaults().BlockRows, pairs: map[[2]int32]*pairShape{}}
}

// Add takes a segment in, of which the number of series is known; 0: it is not.
func (x *ShapedBlocks) Add(s *Segment, series int) {
	for i := range s.blocks[:s.onTime] {
		b := &s.blocks[i]
		x.rows += int(b.Rows)
		of, ok := pairOf(b)
		if !ok {
			continue
		}
		p := x.pairs[of]
		if p == nil {
			p = &pairShape{capLo: math.MaxInt64, capHi: math.MinInt64}
			x.pairs[of] = p
		}
		p.rows += int(b.Rows)
		p.capLo, p.capHi = min(p.capLo, b.Min[record.Cap]), max(p.capHi, b.Max[record.Cap])
	}
	x.series = max(x.series, series)
}

// pairOf returns tenant and quantity of a block, if all of its rows have the same.
func pairOf(b *BlockInfo) (of [2]int32, ok bool) {
	cid, moid := b.Min[record.CID], b.Min[record.MOID]
	return [2]int32{int32(cid), int32(moid)}, cid == b.Max[record.CID] && moid == b.Max[record.MOID]
}

// Finish is called once all segments are in.
func (x *ShapedBlocks) Finish() {
	for _, p := range x.pairs {
		span := float64(p.capHi) - float64(p.capLo)
		blocks := max(1, float64(p.rows)/float64(x.blockRows))
		readings := float64(x.rows) / float64(max(1, x.series))
		p.leastNs = math.Inf(1) // clustering all of them makes other blocks than of some
		if more := timeCuts(readings, blocks, span); more > 1 {
			p.leastNs = span / math.Sqrt(blocks*more) / shapedWidth
		}
	}
}

// Has reports whether a block of one of the segments has that shape.
func (x *ShapedBlocks) Has(b *BlockInfo) bool {
	of, ok := pairOf(b)
	return ok && x.series > 0 && x.pairs[of] != nil &&
		float64(b.Max[record.Cap])-float64(b.Min[record.Cap]) >= x.pairs[of].leastNs
}
