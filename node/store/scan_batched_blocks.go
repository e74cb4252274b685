package store

import (
	"math/bits"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// A query of few devices, or of a short time, opens many blocks for a few rows of each, and mostly
// waits for memory. So the blocks of a task are opened together, then searched together, and then
// their rows are gathered: each step prefetches what the next one needs of a block, and continues
// with another block.

// fewRows is the most rows of a block that make it batchable by any dimension.
const fewRows = 64

// prefetchedBlock is an open block, and its rows that are to be taken.
type prefetchedBlock struct {
	block   segment.Block
	info    *index.BlockInfo
	need    uint8
	devices []segment.MIDs
	spans   []segment.Span
	rows    int
}

// isBatchable reports whether only devices are to be looked at in a block, and can be searched for,
// or whether one dimension leaves few rows of it.
func (w *worker) isBatchable(seg *segmentScan, c index.Candidate) bool {
	if c.Need == 0 || c.Need&(c.Need-1) != 0 || c.Need == needTombstones {
		return false
	}
	if c.Need == 1<<record.MID {
		return sortedByDevice(seg.Index.Block(c.Block)) && seg.lookupCached(c.Block) == nil
	}
	return !w.scan.countOnly && seg.rowsIn(w.box, c) <= fewRows && seg.lookupCached(c.Block) == nil
}

// scanBatch is scanBlock for blocks of the same task of which few rows are to be looked at.
func (w *worker) scanBatch(t *task, candidates []index.Candidate) error {
	for len(w.prefetched) < len(candidates) {
		w.prefetched = append(w.prefetched, new(prefetchedBlock))
	}
	all := w.prefetched[:len(candidates)]
	err := w.openBatch(t, candidates, all)
	for _, h := range all {
		h.close()
	}
	return err
}

func (w *worker) openBatch(t *task, candidates []index.Candidate, all []*prefetchedBlock) error {
	for _, c := range candidates {
		w.prefetchFront(t.segment, c)
	}
	for i, c := range candidates {
		if err := w.openAhead(t.segment, c, all[i]); err != nil {
			return err
		}
	}
	for _, h := range all {
		w.searchBlock(t.segment, h)
		if !w.scan.countOnly {
			h.block.PrefetchRows(h.spans, w.columns&^segment.Columns(h.need))
		}
	}
	for _, h := range all {
		if err := w.takePrefetched(t, h); err != nil {
			return err
		}
		h.close() // at once: it may have a large payload open
	}
	return nil
}

// nextPrefetched returns block i of those that are opened one after another, nil if it is not one
// to be prefetched. The next one is searched meanwhile, and the one after that opened.
func (w *worker) nextPrefetched(
	seg *segmentScan, open []index.Candidate, i int,
) (*prefetchedBlock, error) {
	ring := &w.partials.ring
	toOpen, toSearch, toLoad := i+2, i+1, i+frontDistance
	if i == 0 {
		toOpen, toSearch, toLoad = 0, 0, 0
	}
	for k := toLoad; k < min(i+frontDistance+1, len(open)); k++ {
		w.prefetchFront(seg, open[k])
	}
	for k := toOpen; k < min(i+3, len(open)); k++ {
		if w.isPrefetchable(seg, open[k]) {
			if err := w.openAhead(seg, open[k], &ring[k%len(ring)]); err != nil {
				return nil, err
			}
		}
	}
	for k := toSearch; k < min(i+2, len(open)); k++ {
		if h := &ring[k%len(ring)]; h.info != nil {
			w.searchBlock(seg, h)
			w.partials.prefetch.Set(&h.block, h.spans, w.columns)
			if k == i {
				w.partials.prefetch.Finish()
			}
		}
	}
	if h := &ring[i%len(ring)]; h.info != nil {
		w.partials.prefetch.Attach(&h.block)
		return h, nil
	}
	w.partials.prefetch.Finish()
	return nil, nil
}

// isPrefetchable is isBatchable where blocks that lie inside the box are held, too.
func (w *worker) isPrefetchable(seg *segmentScan, c index.Candidate) bool {
	return c.Need == 0 && seg.lookupCached(c.Block) == nil || w.isBatchable(seg, c)
}

// close ends the use of a block.
func (h *prefetchedBlock) close() {
	h.info = nil // it would keep the directory of a segment that merges replace
	h.block.Forget()
}

// openAhead opens a block.
func (w *worker) openAhead(seg *segmentScan, c index.Candidate, h *prefetchedBlock) (err error) {
	if h.info, err = w.openAs(seg, c, &h.block); err != nil {
		return err
	}
	h.need = c.Need
	if c.Need == 0 {
		return nil
	}
	if c.Need != 1<<record.MID {
		w.prefetchTested(seg, h)
		return nil
	}
	h.devices = w.devicesOf(&h.block, h.info, h.devices[:0])
	h.spans = h.spans[:0]
	lo := 0
	for i := range h.info.Subs {
		hi := int(h.info.Subs[i].End)
		for _, m := range h.devices {
			h.spans = h.block.LikelyMIDs(lo, hi, m, h.spans)
		}
		lo = hi
	}
	h.block.PrefetchMIDs(h.spans)
	return nil
}

// prefetchTested asks for what is tested of a block.
func (w *worker) prefetchTested(seg *segmentScan, h *prefetchedBlock) {
	h.spans = h.spans[:0]
	lo := 0
	for i := range h.info.Subs {
		sub := &h.info.Subs[i]
		if untested, _ := w.needOf(seg, sub, h.need); untested != 0 && lo < int(sub.End) {
			h.spans = append(h.spans, segment.Span{Lo: uint32(lo), Hi: sub.End})
		}
		lo = int(sub.End)
	}
	h.block.PrefetchColumn(record.Dim(bits.TrailingZeros8(h.need)), h.spans)
}

// searchBlock finds the rows of a block.
func (w *worker) searchBlock(seg *segmentScan, h *prefetchedBlock) {
	h.spans, h.rows = h.spans[:0], 0
	if h.need == 0 {
		h.rows = h.block.Rows()
		h.spans = append(h.spans, segment.Span{Hi: uint32(h.rows)})
		return
	}
	if h.need != 1<<record.MID {
		w.searchTested(seg, h)
		return
	}
	lo := 0
	for i := range h.info.Subs {
		hi := int(h.info.Subs[i].End)
		for _, m := range h.devices {
			if from, to := h.block.SearchMIDs(lo, hi, m); from < to {
				h.spans = append(h.spans, segment.Span{Lo: uint32(from), Hi: uint32(to)})
				h.rows += to - from
			}
		}
		lo = hi
	}
}

// searchTested is search by a dimension that leaves few rows.
func (w *worker) searchTested(seg *segmentScan, h *prefetchedBlock) {
	w.block = &h.block
	w.sel = w.choose(seg, h.info, h.need)
	h.rows = len(w.sel)
	for _, at := range w.sel {
		if n := len(h.spans); n > 0 && h.spans[n-1].Hi == at {
			h.spans[n-1].Hi++
			continue
		}
		h.spans = append(h.spans, segment.Span{Lo: at, Hi: at + 1})
	}
}

// takePrefetched adds the rows of a block to the batch.
func (w *worker) takePrefetched(t *task, h *prefetchedBlock) error {
	if w.scan.countOnly || h.rows == 0 {
		w.rows += uint64(h.rows)
		return nil
	}
	if err := w.flushFull(); err != nil {
		return err
	}
	if len(w.batch.Data) < sinkBytes &&
		(w.keysOnly() || h.block.FitSpans(h.rows, sinkBytes)) {
		return w.take(t.segment, t.partition, &h.block, nil, h.spans)
	}
	if len(h.spans) == 1 {
		return w.takeSpan(t.segment, t.partition, &h.block, int(h.spans[0].Lo), int(h.spans[0].Hi))
	}
	w.block, w.sel = &h.block, w.sel[:0]
	for _, s := range h.spans {
		for i := s.Lo; i < s.Hi; i++ {
			w.sel = append(w.sel, i)
		}
	}
	return w.takeChosen(t.segment, t.partition)
}
