package blocks

import "github.com/pentad-db/pentad/sdk/record"

// Removal removes rows of a batch, in ascending order: those between are moved together.
type Removal struct {
	b          *record.Batch
	keep, from int // the rows from one on go to the other
}

// NewRemoval begins to remove rows of a batch from start on.
func NewRemoval(b *record.Batch, start int) Removal {
	return Removal{b: b, keep: start, from: start}
}

// Remove removes a row.
func (r *Removal) Remove(i int) {
	if n := i - r.from; n > 0 && r.keep < r.from {
		r.b.MoveRange(r.keep, r.from, n)
	}
	r.keep, r.from = r.keep+i-r.from, i+1
}

// End ends the removal; the batch is whole then.
func (r *Removal) End() {
	if r.from > r.keep {
		r.Remove(r.b.Len())
	} else {
		r.keep = r.b.Len()
	}
	r.b.Truncate(r.keep)
}
