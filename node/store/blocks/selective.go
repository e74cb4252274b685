package blocks

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

// fewRows is the most rows that a selective test in any dimension leaves of a block.
const fewRows = 64

// Prefetched is an open block, and its rows that are to be taken.
type Prefetched struct {
	Block    segment.Block
	info     *index.BlockInfo
	number   uint32
	residual uint8
	devices  []segment.MIDs
	Spans    []segment.Span
	rows     int
}

// IsSelective reports whether only devices are to be looked at in a block, and can be searched for,
// or whether one dimension leaves few rows of it.
func (w *Reader) IsSelective(seg *PlannedSegment, c index.Candidate) bool {
	if c.Residual == 0 || c.Residual&(c.Residual-1) != 0 || c.Residual == ResidualTombstones {
		return false
	}
	if c.Residual == 1<<record.MID {
		return SortedByDevice(seg.Index.Block(c.Block)) && seg.lookupCached(c.Block) == nil
	}
	return !w.CountOnly && seg.RowsIn(w.Box, c) <= fewRows && seg.lookupCached(c.Block) == nil
}

// isPrefetchable is IsSelective where blocks that lie inside the box are prefetched, too.
func (w *Reader) isPrefetchable(seg *PlannedSegment, c index.Candidate) bool {
	return c.Residual == 0 && seg.lookupCached(c.Block) == nil || w.IsSelective(seg, c)
}

// gatherSelective is GatherBlock for blocks of the same task of which few rows are to be looked at.
func (w *Gatherer) gatherSelective(seg *PlannedSegment, candidates []index.Candidate) error {
	for len(w.prefetched) < len(candidates) {
		w.prefetched = append(w.prefetched, new(Prefetched))
	}
	all := w.prefetched[:len(candidates)]
	err := w.openSelective(seg, candidates, all)
	for _, h := range all {
		h.close()
	}
	return err
}

func (w *Gatherer) openSelective(
	seg *PlannedSegment, candidates []index.Candidate, all []*Prefetched,
) error {
	for _, c := range candidates {
		w.prefetchFront(seg, c)
	}
	for i, c := range candidates {
		if err := w.openAhead(seg, c, all[i]); err != nil {
			return err
		}
	}
	for _, h := range all {
		w.searchBlock(seg, h)
		if !w.CountOnly {
			h.Block.PrefetchRows(h.Spans, w.Columns&^segment.Columns(h.residual))
		}
	}
	for _, h := range all {
		if err := w.takePrefetched(seg, h); err != nil {
			return err
		}
		h.close() // at once: it may have a large payload open
	}
	return nil
}

// close ends the use of a block.
func (h *Prefetched) close() {
	h.info = nil // it would keep the directory of a segment that merges replace
	h.Block.Detach()
}

// openAhead opens a block.
func (w *Reader) openAhead(seg *PlannedSegment, c index.Candidate, h *Prefetched) (err error) {
	if h.info, err = w.openAs(seg, c, &h.Block); err != nil {
		return err
	}
	h.residual, h.number = c.Residual, c.Block
	if c.Residual == 0 {
		return nil
	}
	if c.Residual != 1<<record.MID {
		w.prefetchResidual(seg, h)
		return nil
	}
	h.devices = w.devicesOf(&h.Block, h.info, h.devices[:0])
	h.Spans = h.Spans[:0]
	lo := 0
	for i := range h.info.Subs {
		hi := int(h.info.Subs[i].End)
		for _, m := range h.devices {
			h.Spans = h.Block.LikelyMIDs(lo, hi, m, h.Spans)
		}
		lo = hi
	}
	h.Block.PrefetchMIDs(h.Spans)
	return nil
}

// prefetchResidual asks for the column of the first residual dimension, of the sub-runs whose rows
// it is tested on.
func (w *Reader) prefetchResidual(seg *PlannedSegment, h *Prefetched) {
	h.Spans = h.Spans[:0]
	lo := 0
	for i := range h.info.Subs {
		sub := &h.info.Subs[i]
		if ofSubRun, _ := w.residualOf(seg, sub, h.residual); ofSubRun != 0 && lo < int(sub.End) {
			h.Spans = append(h.Spans, segment.Span{Lo: uint32(lo), Hi: sub.End})
		}
		lo = int(sub.End)
	}
	h.Block.PrefetchColumn(record.Dim(bits.TrailingZeros8(h.residual)), h.Spans)
}

// searchBlock finds the rows of a block.
func (w *Reader) searchBlock(seg *PlannedSegment, h *Prefetched) {
	h.Spans, h.rows = h.Spans[:0], 0
	if h.residual == 0 {
		h.rows = h.Block.Rows()
		h.Spans = append(h.Spans, segment.Span{Hi: uint32(h.rows)})
		return
	}
	if h.residual != 1<<record.MID {
		w.searchResidual(seg, h)
		return
	}
	lo := 0
	for i := range h.info.Subs {
		hi := int(h.info.Subs[i].End)
		for _, m := range h.devices {
			if from, to := h.Block.SearchMIDs(lo, hi, m); from < to {
				h.Spans = append(h.Spans, segment.Span{Lo: uint32(from), Hi: uint32(to)})
				h.rows += to - from
			}
		}
		lo = hi
	}
}

// searchResidual is searchBlock where residual dimensions other than mid are tested.
func (w *Reader) searchResidual(seg *PlannedSegment, h *Prefetched) {
	w.Block = &h.Block
	w.Chosen = w.Choose(seg, h.info, h.residual)
	h.rows = len(w.Chosen)
	for _, at := range w.Chosen {
		if n := len(h.Spans); n > 0 && h.Spans[n-1].Hi == at {
			h.Spans[n-1].Hi++
			continue
		}
		h.Spans = append(h.Spans, segment.Span{Lo: at, Hi: at + 1})
	}
}

// takePrefetched adds the rows of a block to the batch.
func (w *Gatherer) takePrefetched(seg *PlannedSegment, h *Prefetched) error {
	if w.CountOnly || h.rows == 0 {
		w.Rows += uint64(h.rows)
		return nil
	}
	if err := w.flushFull(); err != nil {
		return err
	}
	if w.Where != nil {
		w.chooseSpans(h)
		return w.takeWhere(seg, h.info, h.number, h.residual == 0)
	}
	if h.residual == 0 {
		counted, err := w.beginWhole(seg, h.number, &h.Block)
		defer func() { w.supersededKnown = false }()
		if counted || err != nil {
			return err
		}
	} else if known := seg.SupersededOf(h.number); known != nil && len(known.Positions) > 0 {
		w.chooseSpans(h)
		w.dropSuperseded(seg, h.number)
		return w.TakeChosen(seg)
	}
	if len(w.Batch.Data) < BatchBytes &&
		(w.KeysOnly() || h.Block.FitSpans(h.rows, BatchBytes)) {
		return w.take(seg, &h.Block, nil, h.Spans)
	}
	if len(h.Spans) == 1 {
		return w.takeSpan(seg, &h.Block, int(h.Spans[0].Lo), int(h.Spans[0].Hi))
	}
	w.chooseSpans(h)
	return w.TakeChosen(seg)
}

// chooseSpans chooses the rows of the spans of a block.
func (w *Gatherer) chooseSpans(h *Prefetched) {
	w.Block, w.Chosen = &h.Block, w.Chosen[:0]
	for _, s := range h.Spans {
		for i := s.Lo; i < s.Hi; i++ {
			w.Chosen = append(w.Chosen, i)
		}
	}
}

// Next returns block i of those that are opened one after another, nil if it is not one
// to be prefetched. The next one is searched meanwhile, and the one after that opened.
func (w *Gatherer) Next(
	seg *PlannedSegment, open []index.Candidate, i int,
) (*Prefetched, error) {
	prefetchRing := &w.prefetchRing
	toOpen, toSearch, toLoad := i+2, i+1, i+frontPrefetchDistance
	if i == 0 {
		toOpen, toSearch, toLoad = 0, 0, 0
	}
	for k := toLoad; k < min(i+frontPrefetchDistance+1, len(open)); k++ {
		w.prefetchFront(seg, open[k])
	}
	for k := toOpen; k < min(i+3, len(open)); k++ {
		if w.isPrefetchable(seg, open[k]) {
			if err := w.openAhead(seg, open[k], &prefetchRing[k%len(prefetchRing)]); err != nil {
				return nil, err
			}
		}
	}
	for k := toSearch; k < min(i+2, len(open)); k++ {
		if h := &prefetchRing[k%len(prefetchRing)]; h.info != nil {
			w.searchBlock(seg, h)
			w.prefetch.Set(&h.Block, h.Spans, w.Columns)
			if k == i {
				w.prefetch.Finish()
			}
		}
	}
	if h := &prefetchRing[i%len(prefetchRing)]; h.info != nil {
		w.prefetch.Attach(&h.Block)
		return h, nil
	}
	w.prefetch.Finish()
	return nil, nil
}

// GatherOpened is GatherBlock for a block that may be prefetched.
func (w *Gatherer) GatherOpened(
	seg *PlannedSegment, c index.Candidate, h *Prefetched,
) error {
	if h == nil {
		return w.GatherBlock(seg, c)
	}
	defer h.close()
	defer w.prefetch.Finish()
	return w.takePrefetched(seg, h)
}
