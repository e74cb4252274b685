package store

import (
	"math/bits"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// A question of few devices, or of a short time, opens many blocks for a few rows of each, and
// mostly waits for memory. So the blocks of a task are opened together, then searched together, and
// then their rows are taken: each step asks for what the next one needs of a block, and goes on
// with another one.

// fewHeld is up to how many rows of a block are few.
const fewHeld = 64

// held is an open block, and its rows that are to be taken.
type held struct {
	block   segment.Block
	info    *index.BlockInfo
	need    uint8
	devices []segment.MIDs
	spans   []segment.Span
	rows    int
}

// isHeld reports whether only devices are to be looked at in a block, and can be searched for, or
// whether one dimension leaves few rows of it.
func (w *worker) isHeld(seg *segmentScan, c index.Candidate) bool {
	if c.Need == 0 || c.Need&(c.Need-1) != 0 || c.Need == needHidden {
		return false
	}
	if c.Need == 1<<record.MID {
		return sortedByDevice(seg.idx.Block(c.Block)) && seg.openAlready(c.Block) == nil
	}
	return !w.scan.countOnly && seg.rowsIn(w.box, c) <= fewHeld && seg.openAlready(c.Block) == nil
}

// scanHeld is scanBlock for blocks of the same task of which few rows are to be looked at.
func (w *worker) scanHeld(t *task, candidates []index.Candidate) error {
	for len(w.held) < len(candidates) {
		w.held = append(w.held, new(held))
	}
	all := w.held[:len(candidates)]
	err := w.holdAll(t, candidates, all)
	for _, h := range all {
		h.forget()
	}
	return err
}

func (w *worker) holdAll(t *task, candidates []index.Candidate, all []*held) error {
	for _, c := range candidates {
		w.aheadFront(t.segment, c)
	}
	for i, c := range candidates {
		if err := w.hold(t.segment, c, all[i]); err != nil {
			return err
		}
	}
	for _, h := range all {
		w.search(t.segment, h)
		if !w.scan.countOnly {
			h.block.AheadRows(h.spans, w.reads&^segment.Parts(h.need))
		}
	}
	for _, h := range all {
		if err := w.takeHeld(t, h); err != nil {
			return err
		}
		h.forget() // at once: it may have a large payload open
	}
	return nil
}

// heldAhead returns block i of those that are opened one after another, nil if it is not one to be
// held. The next one is searched meanwhile, and the one after that opened.
func (w *worker) heldAhead(seg *segmentScan, open []index.Candidate, i int) (*held, error) {
	ring := &w.apart.ring
	toOpen, toSearch, toLoad := i+2, i+1, i+frontsAhead
	if i == 0 {
		toOpen, toSearch, toLoad = 0, 0, 0
	}
	for k := toLoad; k < min(i+frontsAhead+1, len(open)); k++ {
		w.aheadFront(seg, open[k])
	}
	for k := toOpen; k < min(i+3, len(open)); k++ {
		if w.isHeldAhead(seg, open[k]) {
			if err := w.hold(seg, open[k], &ring[k%len(ring)]); err != nil {
				return nil, err
			}
		}
	}
	for k := toSearch; k < min(i+2, len(open)); k++ {
		if h := &ring[k%len(ring)]; h.info != nil {
			w.search(seg, h)
			w.apart.loads.Set(&h.block, h.spans, w.reads)
			if k == i {
				w.apart.loads.Finish()
			}
		}
	}
	if h := &ring[i%len(ring)]; h.info != nil {
		w.apart.loads.Beside(&h.block)
		return h, nil
	}
	w.apart.loads.Finish()
	return nil, nil
}

// isHeldAhead is isHeld where blocks that lie inside the box are held, too.
func (w *worker) isHeldAhead(seg *segmentScan, c index.Candidate) bool {
	return c.Need == 0 && seg.openAlready(c.Block) == nil || w.isHeld(seg, c)
}

// forget ends the use of a block.
func (h *held) forget() {
	h.info = nil // it would keep the directory of a segment that merges replace
	h.block.Forget()
}

// hold opens a block.
func (w *worker) hold(seg *segmentScan, c index.Candidate, h *held) (err error) {
	if h.info, err = w.openAs(seg, c, &h.block); err != nil {
		return err
	}
	h.need = c.Need
	if c.Need == 0 {
		return nil
	}
	if c.Need != 1<<record.MID {
		w.holdFew(seg, h)
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
	h.block.AheadMIDs(h.spans)
	return nil
}

// holdFew asks for what is tested of a block.
func (w *worker) holdFew(seg *segmentScan, h *held) {
	h.spans = h.spans[:0]
	lo := 0
	for i := range h.info.Subs {
		sub := &h.info.Subs[i]
		if untested, _ := w.needOf(seg, sub, h.need); untested != 0 && lo < int(sub.End) {
			h.spans = append(h.spans, segment.Span{Lo: uint32(lo), Hi: sub.End})
		}
		lo = int(sub.End)
	}
	h.block.AheadColumn(record.Dim(bits.TrailingZeros8(h.need)), h.spans)
}

// search finds the rows of a block.
func (w *worker) search(seg *segmentScan, h *held) {
	h.spans, h.rows = h.spans[:0], 0
	if h.need == 0 {
		h.rows = h.block.Rows()
		h.spans = append(h.spans, segment.Span{Hi: uint32(h.rows)})
		return
	}
	if h.need != 1<<record.MID {
		w.searchFew(seg, h)
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

// searchFew is search by a dimension that leaves few rows.
func (w *worker) searchFew(seg *segmentScan, h *held) {
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

// takeHeld adds the rows of a block to the batch.
func (w *worker) takeHeld(t *task, h *held) error {
	if w.scan.countOnly || h.rows == 0 {
		w.rows += uint64(h.rows)
		return nil
	}
	if err := w.flushFull(); err != nil {
		return err
	}
	if len(w.batch.Data) < sinkBytes &&
		(w.keysOnly() || h.block.FitSpans(h.rows, sinkBytes)) {
		return w.take(t.segment, t.piece, &h.block, nil, h.spans)
	}
	if len(h.spans) == 1 {
		return w.takeSpan(t.segment, t.piece, &h.block, int(h.spans[0].Lo), int(h.spans[0].Hi))
	}
	w.block, w.sel = &h.block, w.sel[:0]
	for _, s := range h.spans {
		for i := s.Lo; i < s.Hi; i++ {
			w.sel = append(w.sel, i)
		}
	}
	return w.takeChosen(t.segment, t.piece)
}
