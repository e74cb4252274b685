package segment

import "github.com/pentad-db/pentad/sdk/record"

// GatherSpan appends the rows at the positions [lo, hi) to dst; see Gather.
func (b *Block) GatherSpan(lo, hi int, keysOnly bool, dst *record.Batch) error {
	sel := make([]uint32, 0, maxBlockRows)
	for i := lo; i < hi; i++ {
		sel = append(sel, uint32(i))
	}
	return b.Gather(sel, keysOnly, dst)
}
