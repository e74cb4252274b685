package store

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
)

// Blocks with flagged rows are read twice: first for these rows, before any row is delivered, and
// then for all. The first of them stay open in a cache until then, with their rows in the box.

// maxCachedBlocks bounds the cache; a block takes at most 80 KB.
const maxCachedBlocks = 64

// cachedBlock is an open block.
type cachedBlock struct {
	prefetchedBlock
	number uint32
	// Its rows in the box are held, or these.
	inSpans bool
	sel     []uint32
}

// findFlagged adds the flagged rows of candidates that lie in the box of a partition to its newest.
//
// Errors: errFull when they are more readings than there is room for.
func (w *worker) findFlagged(p *partition, seg *segmentScan, candidates []index.Candidate) error {
	w.box = &p.box
	for len(candidates) > 0 {
		if err := w.scan.ctx.Err(); err != nil {
			return err
		}
		n, hold := 1, w.isBatchable(seg, candidates[0])
		for n < min(len(candidates), chunkBlocks) && w.isBatchable(seg, candidates[n]) == hold {
			n++
		}
		w.scan.store.readAhead(seg.Segment, candidates[:n])
		all, stay := w.scan.cacheSlots(n)
		if err := w.openCached(seg, candidates[:n], all, hold); err != nil {
			return err
		}
		for _, f := range all {
			if err := w.addFlagged(p, seg, f); err != nil {
				return err
			}
		}
		if stay {
			seg.cached = append(seg.cached, all...)
		}
		candidates = candidates[n:]
	}
	return nil
}

// cacheSlots returns n blocks to be opened, and whether they may stay open.
func (sc *scan) cacheSlots(n int) (all []*cachedBlock, stay bool) {
	from := min(sc.cachedBlocks, maxCachedBlocks)
	if sc.seenOnce {
		from = 0
	}
	sc.cachedBlocks += n
	for len(sc.blockCache) < from+n {
		sc.blockCache = append(sc.blockCache, new(cachedBlock))
	}
	return sc.blockCache[from:][:n], !sc.seenOnce && sc.cachedBlocks <= maxCachedBlocks
}

// openCached opens blocks, and finds their rows in the box.
func (w *worker) openCached(
	seg *segmentScan, candidates []index.Candidate, all []*cachedBlock, hold bool,
) error {
	for i, c := range candidates {
		all[i].number, all[i].inSpans = c.Block, hold
		if hold {
			w.prefetchFront(seg, c)
		}
	}
	for i, c := range candidates {
		f := all[i]
		if hold {
			if err := w.openAhead(seg, c, &f.prefetchedBlock); err != nil {
				return err
			}
			continue
		}
		w.prefetchNext(seg, candidates, i)
		info, err := w.openAs(seg, c, &f.block)
		if err != nil {
			return err
		}
		w.sel = w.choose(seg, info, c.Need)
		f.sel = append(f.sel[:0], w.sel...)
	}
	if hold {
		for _, f := range all {
			w.searchBlock(seg, &f.prefetchedBlock)
		}
	}
	return nil
}

// addFlagged adds the flagged ones of the rows that were found to the newest of a partition.
func (w *worker) addFlagged(p *partition, seg *segmentScan, f *cachedBlock) error {
	if f.inSpans {
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

// lookupCached returns a block that stayed open, nil for others.
func (seg *segmentScan) lookupCached(number uint32) *cachedBlock {
	if len(seg.cached) == 0 {
		return nil
	}
	i, ok := slices.BinarySearchFunc(seg.cached, number, func(f *cachedBlock, number uint32) int {
		return cmp.Compare(f.number, number)
	})
	if !ok {
		return nil
	}
	return seg.cached[i]
}

// takeCached adds the rows of such a block to the batch, and ends its use.
func (w *worker) takeCached(t *task, f *cachedBlock) (err error) {
	w.own.Lend(&f.block)
	w.block = &f.block
	if f.inSpans {
		err = w.takePrefetched(t, &f.prefetchedBlock)
	} else if err = w.flushFull(); err == nil {
		w.sel = append(w.sel[:0], f.sel...)
		err = w.takeChosen(t.segment, t.partition)
	}
	f.block.Lend(&w.own)
	f.close()
	return err
}

// truncateCache ends the use of the blocks that were found after a number of them.
func (sc *scan) truncateCache(after int) {
	for i := after; i < min(sc.cachedBlocks, len(sc.blockCache)); i++ {
		sc.blockCache[i].close()
	}
	sc.cachedBlocks = after
}
