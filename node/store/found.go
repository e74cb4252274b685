package store

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
)

// Blocks with flagged rows are looked at twice: for these rows, before anything is given out, and
// then for all. The first of them stay open meanwhile, with their rows that lie in the box.

// maxFound bounds what they take, 80 KB each at most.
const maxFound = 64

// found is an open block.
type found struct {
	held
	number uint32
	// Its rows in the box are held, or these.
	isHeld bool
	sel    []uint32
}

// findFlagged adds the flagged rows of candidates that lie in the box of a piece to its newest.
//
// Errors: errFull when they are more readings than there is room for.
func (w *worker) findFlagged(p *piece, seg *segmentScan, candidates []index.Candidate) error {
	w.box = &p.box
	for len(candidates) > 0 {
		if err := w.scan.ctx.Err(); err != nil {
			return err
		}
		n, hold := 1, w.isHeld(seg, candidates[0])
		for n < min(len(candidates), chunkBlocks) && w.isHeld(seg, candidates[n]) == hold {
			n++
		}
		w.scan.store.fetch(seg.sealedSegment, candidates[:n])
		all, stay := w.scan.toFind(n)
		if err := w.find(seg, candidates[:n], all, hold); err != nil {
			return err
		}
		for _, f := range all {
			if err := w.addFlagged(p, seg, f); err != nil {
				return err
			}
		}
		if stay {
			seg.found = append(seg.found, all...)
		}
		candidates = candidates[n:]
	}
	return nil
}

// toFind returns n blocks to be opened, and whether they may stay open.
func (sc *scan) toFind(n int) (all []*found, stay bool) {
	from := min(sc.found, maxFound)
	if sc.seenOnce {
		from = 0
	}
	sc.found += n
	for len(sc.opened) < from+n {
		sc.opened = append(sc.opened, new(found))
	}
	return sc.opened[from:][:n], !sc.seenOnce && sc.found <= maxFound
}

// find opens blocks, and finds their rows in the box.
func (w *worker) find(
	seg *segmentScan, candidates []index.Candidate, all []*found, hold bool,
) error {
	for i, c := range candidates {
		all[i].number, all[i].isHeld = c.Block, hold
		if hold {
			w.aheadFront(seg, c)
		}
	}
	for i, c := range candidates {
		f := all[i]
		if hold {
			if err := w.hold(seg, c, &f.held); err != nil {
				return err
			}
			continue
		}
		w.ahead(seg, candidates, i)
		info, err := w.openAs(seg, c, &f.block)
		if err != nil {
			return err
		}
		w.sel = w.choose(seg, info, c.Need)
		f.sel = append(f.sel[:0], w.sel...)
	}
	if hold {
		for _, f := range all {
			w.search(seg, &f.held)
		}
	}
	return nil
}

// addFlagged adds the flagged ones of the rows that were found to the newest of a piece.
func (w *worker) addFlagged(p *piece, seg *segmentScan, f *found) error {
	if f.isHeld {
		w.sel = f.block.FlaggedSpans(f.spans, w.sel[:0])
	} else {
		w.sel = f.block.Flagged(append(w.sel[:0], f.sel...))
	}
	w.batch.Reset()
	if err := f.block.Gather(w.sel, true, &w.batch); err != nil {
		return err
	}
	if err := seg.stampRows(w.batch.AcqNs); err != nil {
		return err
	}
	for i := range w.batch.Len() {
		if err := p.newest.add(&w.batch, i); err != nil {
			return err
		}
	}
	return nil
}

// openAlready returns a block that stayed open, nil for others.
func (seg *segmentScan) openAlready(number uint32) *found {
	if len(seg.found) == 0 {
		return nil
	}
	i, ok := slices.BinarySearchFunc(seg.found, number, func(f *found, number uint32) int {
		return cmp.Compare(f.number, number)
	})
	if !ok {
		return nil
	}
	return seg.found[i]
}

// takeFound adds the rows of such a block to the batch, and ends its use.
func (w *worker) takeFound(t *task, f *found) (err error) {
	w.own.Lend(&f.block)
	w.block = &f.block
	if f.isHeld {
		err = w.takeHeld(t, &f.held)
	} else if err = w.flushFull(); err == nil {
		w.sel = append(w.sel[:0], f.sel...)
		err = w.takeChosen(t.segment, t.piece)
	}
	f.block.Lend(&w.own)
	f.forget()
	return err
}

// forgetFound ends the use of the blocks that were found after so many.
func (sc *scan) forgetFound(after int) {
	for i := after; i < min(sc.found, len(sc.opened)); i++ {
		sc.opened[i].forget()
	}
	sc.found = after
}
