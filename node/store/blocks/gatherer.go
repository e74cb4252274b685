package blocks

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// Gatherer is a reader that gathers the rows that it chooses, for a consumer.
type Gatherer struct {
	Reader
	gathererState
	gathererBuffers
}

// gathererState is what a gatherer works for, which Reset forgets.
type gathererState struct {
	Consumer      Consumer
	Columns       segment.Columns // of rows
	payloadBuffer consumerBuffer  // of the batch
	separate      bool            // outer has rows, see BeginSeparateBatch
	Where         *where.Program  // what payloads of rows are to meet; nil: any
	// CountMet: it is enough to count the rows that meet Where, in a view of all versions or not.
	CountMet, AllVersions bool
	shownOnly             bool // what is taken has no rows for RowHider
	// superseded, if it is known, are positions of the block that is taken.
	superseded      []uint16
	supersededKnown bool
	RowHider        RowHider // nil: all rows are shown
}

// RowHider knows which rows are not to be shown, beyond those that [PlannedSegment.SupersededOf]
// returns.
type RowHider interface {
	// DropHidden removes such rows from a batch, from start on.
	DropHidden(b *record.Batch, start int)
	// FindSuperseded returns the positions of all rows of a block that are not to be shown,
	// ascending, valid until the next call. It is not ok where only DropHidden knows.
	//
	// Errors: *durable.CorruptError.
	FindSuperseded(seg *PlannedSegment, number uint32, b *segment.Block) (
		positions []uint16, ok bool, err error)
}

type gathererBuffers struct {
	payloads           segment.PayloadFilter
	dense              record.Batch // what [segment.Block.GatherDense] decodes
	Batch              record.Batch // of what was gathered
	prefetched         []*Prefetched
	prefetchRing       [3]Prefetched         // blocks that are opened and searched ahead
	prefetch           segment.PrefetchQueue // of the next of these
	outer              record.Batch          // see BeginSeparateBatch
	outerPayloadBuffer consumerBuffer        // of outer
	single             [1]index.Candidate    // that is prefetched alone
	span               [1]segment.Span
}

// Reset forgets everything but memory, and of that what only unusual rows need.
func (w *Gatherer) Reset() {
	w.payloadBuffer.end(&w.Batch)
	w.outerPayloadBuffer.end(&w.outer)
	w.gathererState = gathererState{}
	w.payloads.Program = nil
	Empty(&w.Batch)
	Empty(&w.outer)
	w.Reader.reset()
}

// BatchRows is about how many rows a sink gets at once: enough to amortise a call into a plugin,
// few enough to stay in the CPU caches.
const BatchRows = 2048

// spanRows is how many neighbouring rows of a block are gathered at once.
const spanRows = 4096

// BatchBytes is how many payload bytes make a sink be called early: with one payload of the
// largest size more they still fit a frame.
const BatchBytes = 8 << 20

// TaskBlocks is how many neighbouring blocks a worker takes at once.
const TaskBlocks = 8

// Gather adds the rows of candidates of a segment that lie in the box to the batch, which goes to
// the consumer whenever there are enough.
//
// Errors: *durable.CorruptError, ctx.Err(), and those of the consumer; the same below.
func (w *Gatherer) Gather(seg *PlannedSegment, candidates []index.Candidate) error {
	for len(candidates) > 0 {
		n, selective := 1, w.IsSelective(seg, candidates[0])
		for n < len(candidates) && w.IsSelective(seg, candidates[n]) == selective {
			n++
		}
		if err := w.scanBlocks(seg, candidates[:n], selective); err != nil {
			return err
		}
		candidates = candidates[n:]
	}
	return nil
}

func (w *Gatherer) scanBlocks(
	seg *PlannedSegment, candidates []index.Candidate, selective bool,
) error {
	if selective {
		return w.gatherSelective(seg, candidates)
	}
	for i, c := range candidates {
		if len(candidates) > frontPrefetchDistance {
			w.prefetchNext(seg, candidates, i)
		}
		if err := w.GatherBlock(seg, c); err != nil {
			return err
		}
	}
	return nil
}

// GatherBlock adds the rows of a block that lie in the box to the batch.
func (w *Gatherer) GatherBlock(seg *PlannedSegment, c index.Candidate) error {
	if f := seg.lookupCached(c.Block); f != nil {
		return w.takeCached(seg, f)
	}
	if w.IsSelective(seg, c) {
		w.single[0] = c
		return w.gatherSelective(seg, w.single[:])
	}
	if err := w.flushFull(); err != nil {
		return err
	}
	info, err := w.Open(seg, c)
	if err != nil {
		return err
	}
	if w.Where != nil {
		return w.gatherWhere(seg, info, c)
	}
	if c.Residual == 0 && !w.CountOnly {
		return w.gatherWhole(seg, c.Block, w.Block)
	}
	if w.CountOnly && c.Residual&ResidualTombstones == 0 {
		w.Rows += uint64(w.count(seg, info, c.Residual))
		return nil
	}
	w.Chosen = w.Choose(seg, info, c.Residual)
	if w.CountOnly {
		w.Rows += uint64(len(w.Chosen))
		return nil
	}
	w.dropSuperseded(seg, c.Block)
	return w.TakeChosen(seg)
}

// dropSuperseded removes from the chosen rows of a block those known to be superseded.
func (w *Gatherer) dropSuperseded(seg *PlannedSegment, number uint32) {
	known := seg.SupersededOf(number)
	if known == nil || len(known.Positions) == 0 {
		return
	}
	rest, k := known.Positions, 0
	for _, at := range w.Chosen {
		for len(rest) > 0 && uint32(rest[0]) < at {
			rest = rest[1:]
		}
		if len(rest) > 0 && uint32(rest[0]) == at {
			w.Superseded++
			continue
		}
		w.Chosen[k] = at
		k++
	}
	w.Chosen = w.Chosen[:k]
}

// gatherWhole is GatherBlock for an open block that lies inside the box.
func (w *Gatherer) gatherWhole(seg *PlannedSegment, number uint32, b *segment.Block) error {
	counted, err := w.beginWhole(seg, number, b)
	if err == nil && !counted {
		err = w.takeSpan(seg, b, 0, b.Rows())
	}
	w.supersededKnown = false
	return err
}

// beginWhole looks which rows of a block that lies inside the box are superseded, until
// supersededKnown is cleared. Where it is enough to count those that are shown, they are counted.
func (w *Gatherer) beginWhole(
	seg *PlannedSegment, number uint32, b *segment.Block,
) (counted bool, err error) {
	if w.RowHider == nil {
		return false, nil
	}
	w.superseded, w.supersededKnown, err = w.RowHider.FindSuperseded(seg, number, b)
	if err != nil || !w.supersededKnown {
		return false, err
	}
	w.Superseded += uint64(len(w.superseded))
	if w.CountShown {
		w.Rows += uint64(b.Rows() - len(w.superseded))
	}
	return w.CountShown, nil
}

// flushFull hands the gathered rows to the sink when there are enough.
func (w *Gatherer) flushFull() error {
	if w.Batch.Len() < BatchRows {
		return nil
	}
	return w.Flush()
}

// TakeChosen adds the chosen rows of the open block to the batch, without those that the resolver
// removes.
func (w *Gatherer) TakeChosen(seg *PlannedSegment) error {
	if len(w.Chosen) == 0 {
		return nil
	}
	if lo, hi := int(w.Chosen[0]), int(w.Chosen[len(w.Chosen)-1])+1; hi-lo == len(w.Chosen) {
		return w.takeSpan(seg, w.Block, lo, hi) // ascending, so nothing is missing between
	}
	for rest := w.Chosen; len(rest) > 0; {
		n := len(rest)
		if !w.KeysOnly() {
			n = w.Block.Fit(rest, BatchBytes)
		}
		if err := w.take(seg, w.Block, rest[:n], nil); err != nil {
			return err
		}
		if rest = rest[n:]; len(rest) > 0 || len(w.Batch.Data) >= BatchBytes {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeSpan is TakeChosen for the rows [lo, hi) of a block.
func (w *Gatherer) takeSpan(seg *PlannedSegment, b *segment.Block, lo, hi int) error {
	for lo < hi {
		end := min(hi, lo+spanRows)
		if !w.KeysOnly() {
			end = b.FitSpan(lo, end, BatchBytes)
		}
		w.span[0] = segment.Span{Lo: uint32(lo), Hi: uint32(end)}
		if err := w.take(seg, b, nil, w.span[:]); err != nil {
			return err
		}
		if lo = end; lo < hi || len(w.Batch.Data) >= BatchBytes {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// take adds rows of a block to the batch: those of sel, or with nil those of spans.
func (w *Gatherer) take(
	seg *PlannedSegment, b *segment.Block, sel []uint32, spans []segment.Span,
) error {
	start, columns := w.Batch.Len(), w.Columns
	if start == 0 && w.Consumer.PayloadBuffer != nil {
		w.payloadBuffer.begin(&w.Batch, w.Consumer.PayloadBuffer(w.separate))
	}
	isGathered, err := false, error(nil)
	if w.Where != nil && sel != nil {
		isGathered, err = b.GatherDense(sel, columns, &w.dense, &w.Batch)
	}
	if !isGathered && err == nil {
		err = b.GatherColumns(sel, spans, columns, &w.Batch)
	}
	if err != nil {
		return err
	}
	if columns>>record.Acq&1 != 0 {
		if err := seg.RanksToAcqs(w.Batch.AcqNs[start:]); err != nil {
			return err
		}
	}
	switch {
	case w.supersededKnown: // the rows are one span
		lo, hi := spans[0].Lo, spans[0].Hi
		from, _ := slices.BinarySearch(w.superseded, uint16(lo))
		out := NewRowRemover(&w.Batch, start)
		for _, at := range w.superseded[from:] {
			if uint32(at) >= hi {
				break
			}
			out.Remove(start + int(uint32(at)-lo))
		}
		out.End()
	case w.RowHider != nil && !w.shownOnly:
		w.RowHider.DropHidden(&w.Batch, start)
	}
	return nil
}

// Flush hands the gathered rows to the consumer.
func (w *Gatherer) Flush() error {
	n := w.Batch.Len()
	if n == 0 {
		return nil
	}
	w.Rows += uint64(n)
	err := w.Consumer.Rows(&w.Batch)
	w.Batch.Reset()
	if w.payloadBuffer.end(&w.Batch) {
		w.Consumer.PayloadBuffer = nil // it is too small
	}
	return cmp.Or(err, w.CPU.Yield(w.Ctx))
}

// KeysOnly reports whether no payload is read.
func (w *Gatherer) KeysOnly() bool { return w.Columns&segment.Payloads == 0 }

// BeginSeparateBatch begins a separate batch: rows that were gathered before stay in outer until
// EndSeparateBatch.
func (w *Gatherer) BeginSeparateBatch() {
	if w.separate = w.Batch.Len() > 0; w.separate {
		w.swapBatches()
	}
}

// EndSeparateBatch continues the batch that BeginSeparateBatch set aside. The separate one is
// empty.
func (w *Gatherer) EndSeparateBatch() {
	if w.separate {
		w.swapBatches()
		w.separate = false
	}
}

func (w *Gatherer) swapBatches() {
	w.Batch, w.outer = w.outer, w.Batch
	w.payloadBuffer, w.outerPayloadBuffer = w.outerPayloadBuffer, w.payloadBuffer
}

// ClosePrefetchRing ends the use of the blocks that Next opened.
func (w *Gatherer) ClosePrefetchRing() {
	for i := range w.prefetchRing {
		w.prefetchRing[i].close()
	}
}
