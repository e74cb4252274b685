package blocks

import "github.com/pentad-db/pentad/sdk/record"

// RowRemover removes rows of a batch, in ascending order; the rows that stay are moved together.
type RowRemover struct {
	b          *record.Batch
	keep, from int // the rows from one on go to the other
}

// NewRowRemover begins to remove rows of a batch from start on.
func NewRowRemover(b *record.Batch, start int) RowRemover {
	return RowRemover{b: b, keep: start, from: start}
}

// Remove removes a row.
func (r *RowRemover) Remove(i int) {
	if n := i - r.from; n > 0 && r.keep < r.from {
		r.b.MoveRange(r.keep, r.from, n)
	}
	r.keep, r.from = r.keep+i-r.from, i+1
}

// End moves the rows that follow the last one removed; the batch is whole then.
func (r *RowRemover) End() {
	if r.from > r.keep {
		r.Remove(r.b.Len())
	} else {
		r.keep = r.b.Len()
	}
	r.b.Truncate(r.keep)
}
