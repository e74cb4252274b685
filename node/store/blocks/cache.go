package blocks

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
)

// Blocks with flagged rows are read twice: first for these rows, before any row is delivered, and
// then for all. The first of them stay open in a cache until then, with their rows in the box.

// maxCachedBlocks bounds the cache; a block takes at most 80 KB.
const maxCachedBlocks = 64

// Cached is an open block, and its rows in the box.
type Cached struct {
	Prefetched
	// The rows are in Spans, or in Sel.
	InSpans bool
	Sel     []uint32
}

// Cache keeps blocks open.
type Cache struct {
	blocks []*Cached
	Taken  int  // blocks that Slots gave
	Once   bool // no block is opened again for its rows, so none stays open
}

// Reset forgets everything but memory.
func (bc *Cache) Reset() { bc.Taken, bc.Once = 0, false }

// Slots returns n blocks to be opened, and whether they may stay open.
func (bc *Cache) Slots(n int) (all []*Cached, stay bool) {
	from := min(bc.Taken, maxCachedBlocks)
	if bc.Once {
		from = 0
	}
	bc.Taken += n
	for len(bc.blocks) < from+n {
		bc.blocks = append(bc.blocks, new(Cached))
	}
	return bc.blocks[from:][:n], !bc.Once && bc.Taken <= maxCachedBlocks
}

// Truncate ends the use of the blocks that were taken after a number of them.
func (bc *Cache) Truncate(after int) {
	for i := after; i < min(bc.Taken, len(bc.blocks)); i++ {
		bc.blocks[i].close()
	}
	bc.Taken = after
}

// OpenCached opens blocks, and finds their rows in the box.
func (w *Reader) OpenCached(
	seg *PlannedSegment, candidates []index.Candidate, all []*Cached, selective bool,
) error {
	for i, c := range candidates {
		all[i].number, all[i].InSpans = c.Block, selective
		if selective {
			w.prefetchFront(seg, c)
		}
	}
	for i, c := range candidates {
		f := all[i]
		if selective {
			if err := w.openAhead(seg, c, &f.Prefetched); err != nil {
				return err
			}
			continue
		}
		w.prefetchNext(seg, candidates, i)
		f.residual = c.Residual
		info, err := w.openAs(seg, c, &f.Block)
		if err != nil {
			return err
		}
		w.Chosen = w.Choose(seg, info, c.Residual)
		f.Sel = append(f.Sel[:0], w.Chosen...)
	}
	if selective {
		for _, f := range all {
			w.searchBlock(seg, &f.Prefetched)
		}
	}
	return nil
}

// lookupCached returns a block that stayed open, nil for others.
func (seg *PlannedSegment) lookupCached(number uint32) *Cached {
	if len(seg.Cached) == 0 {
		return nil
	}
	i, ok := slices.BinarySearchFunc(seg.Cached, number, func(f *Cached, number uint32) int {
		return cmp.Compare(f.number, number)
	})
	if !ok {
		return nil
	}
	return seg.Cached[i]
}

// takeCached adds the rows of such a block to the batch, and ends its use.
func (w *Gatherer) takeCached(seg *PlannedSegment, f *Cached) (err error) {
	w.own.Lend(&f.Block)
	w.Block = &f.Block
	if f.InSpans {
		err = w.takePrefetched(seg, &f.Prefetched)
	} else if err = w.flushFull(); err == nil && w.Where != nil {
		w.Chosen = append(w.Chosen[:0], f.Sel...)
		err = w.takeWhere(seg, seg.Index.Block(f.number), f.number, f.residual == 0)
	} else if err == nil && f.residual == 0 {
		err = w.gatherWhole(seg, f.number, &f.Block)
	} else if err == nil {
		w.Chosen = append(w.Chosen[:0], f.Sel...)
		w.dropSuperseded(seg, f.number)
		err = w.TakeChosen(seg)
	}
	f.Block.Lend(&w.own)
	f.close()
	return err
}
