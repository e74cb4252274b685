package blocks

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
)

// Blocks with flagged rows are read twice in a pass: first for these rows, before any row is
// delivered, and then for all. The first of them stay open until then, with their rows in the box.

// maxOpenBlocks is how many stay open; a block takes at most 80 KB.
const maxOpenBlocks = 64

// OpenBlock is an open block, and its rows in the box.
type OpenBlock struct {
	Prefetched
	// The rows are in Spans, or in Sel.
	InSpans bool
	Sel     []uint32
}

// OpenBlocks are those of a pass, and memory for them.
type OpenBlocks struct {
	blocks []*OpenBlock
	Taken  int  // blocks that Slots gave
	Once   bool // no block is opened again for its rows, so none stays open
}

// Reset forgets everything but memory.
func (o *OpenBlocks) Reset() { o.Taken, o.Once = 0, false }

// Slots returns n blocks to be opened, and whether they may stay open.
func (o *OpenBlocks) Slots(n int) (all []*OpenBlock, stay bool) {
	from := min(o.Taken, maxOpenBlocks)
	if o.Once {
		from = 0
	}
	o.Taken += n
	for len(o.blocks) < from+n {
		o.blocks = append(o.blocks, new(OpenBlock))
	}
	return o.blocks[from:][:n], !o.Once && o.Taken <= maxOpenBlocks
}

// Truncate ends the use of the blocks that were taken after a number of them.
func (o *OpenBlocks) Truncate(after int) {
	for i := after; i < min(o.Taken, len(o.blocks)); i++ {
		o.blocks[i].close()
	}
	o.Taken = after
}

// OpenAll opens blocks, and finds their rows in the box.
func (r *Reader) OpenAll(
	seg *PlannedSegment, candidates []index.Candidate, all []*OpenBlock, selective bool,
) error {
	for i, c := range candidates {
		all[i].number, all[i].InSpans = c.Block, selective
		if selective {
			r.prefetchFront(seg, c)
		}
	}
	for i, c := range candidates {
		open := all[i]
		if selective {
			if err := r.openAhead(seg, c, &open.Prefetched); err != nil {
				return err
			}
			continue
		}
		r.prefetchNext(seg, candidates, i)
		open.residual = c.Residual
		info, err := r.openAs(seg, c, &open.Block)
		if err != nil {
			return err
		}
		r.Chosen = r.Choose(seg, info, c.Residual)
		open.Sel = append(open.Sel[:0], r.Chosen...)
	}
	if selective {
		for _, open := range all {
			r.searchBlock(seg, &open.Prefetched)
		}
	}
	return nil
}

// findOpen returns a block that stayed open, nil for others.
func (seg *PlannedSegment) findOpen(number uint32) *OpenBlock {
	if len(seg.Open) == 0 {
		return nil
	}
	i, ok := slices.BinarySearchFunc(seg.Open, number, func(open *OpenBlock, number uint32) int {
		return cmp.Compare(open.number, number)
	})
	if !ok {
		return nil
	}
	return seg.Open[i]
}

// takeOpen adds the rows of such a block to the batch, and ends its use.
func (g *Gatherer) takeOpen(seg *PlannedSegment, open *OpenBlock) (err error) {
	g.own.Lend(&open.Block)
	g.Block = &open.Block
	if open.InSpans {
		err = g.takePrefetched(seg, &open.Prefetched)
	} else if err = g.flushFull(); err == nil && g.Where != nil {
		g.Chosen = append(g.Chosen[:0], open.Sel...)
		err = g.takeWhere(seg, seg.Index.Block(open.number), open.number, open.residual)
	} else if err == nil && open.residual == 0 {
		err = g.gatherWhole(seg, open.number, &open.Block)
	} else if err == nil {
		g.Chosen = append(g.Chosen[:0], open.Sel...)
		g.dropSuperseded(seg, open.number)
		err = g.TakeChosen(seg)
	}
	open.Block.Lend(&g.own)
	open.close()
	return err
}
