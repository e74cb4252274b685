package store

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// A question of few devices opens many blocks for a few rows of each, and mostly waits for memory.
// So the blocks of a task are opened together, then searched together, and then their rows are
// taken: each step asks for what the next one needs of a block, and goes on with another one.

// held is an open block, and its rows that are to be taken.
type held struct {
	block   segment.Block
	info    *index.BlockInfo
	devices []segment.MIDs
	spans   []segment.Span
	rows    int
}

// isHeld reports whether only devices are to be looked at in a block, and can be searched for.
func isHeld(seg *segmentScan, c index.Candidate) bool {
	return c.Need == 1<<record.MID && sortedByDevice(seg.idx.Block(c.Block)) &&
		seg.openAlready(c.Block) == nil
}

// scanHeld is scanBlock for blocks of the same task of which only devices are to be looked at.
func (w *worker) scanHeld(t *task, candidates []index.Candidate) error {
	for len(w.held) < len(candidates) {
		w.held = append(w.held, new(held))
	}
	all := w.held[:len(candidates)]
	for _, c := range candidates {
		w.aheadFront(t.segment, c)
	}
	for i, c := range candidates {
		if err := w.hold(t.segment, c, all[i]); err != nil {
			return err
		}
	}
	for _, h := range all {
		w.search(h)
	}
	for _, h := range all {
		if err := w.takeHeld(t, h); err != nil {
			return err
		}
		h.forget()
	}
	return nil
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

// search finds the rows of a block.
func (w *worker) search(h *held) {
	h.spans, h.rows = h.spans[:0], 0
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
	if !w.scan.countOnly {
		h.block.AheadRows(h.spans, w.scan.parts)
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
		(w.scan.keysOnly || h.block.FitSpans(h.rows, sinkBytes)) {
		return w.take(t.segment, t.piece, &h.block, nil, h.spans)
	}
	for _, s := range h.spans {
		if err := w.takeSpan(t.segment, t.piece, &h.block, int(s.Lo), int(s.Hi)); err != nil {
			return err
		}
	}
	return nil
}
