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
	// supersededPositions, if supersededKnown, are of the block that is taken.
	supersededPositions []uint16
	supersededKnown     bool
	RowHider            RowHider // nil: all rows are shown
}

// RowHider knows which rows are not to be shown.
type RowHider interface {
	// DropHidden removes such rows from a batch, from start on, but for those that
	// [PlannedSegment.SupersededOf] returns, which the caller leaves out.
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
	payloadBounds      []where.Bounds
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
func (g *Gatherer) Reset() {
	g.payloadBuffer.end(&g.Batch)
	g.outerPayloadBuffer.end(&g.outer)
	g.gathererState = gathererState{}
	g.payloads.Program = nil
	Empty(&g.Batch)
	Empty(&g.outer)
	g.Reader.reset()
}

// BatchRows: a batch with this many rows goes to the sink before rows of another block are added:
// enough to amortise a call into a plugin, few enough to stay in the CPU caches. So a batch has
// fewer rows than this and, of one block more, up to spanRows neighbours, or all others that are
// chosen.
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
func (g *Gatherer) Gather(seg *PlannedSegment, candidates []index.Candidate) error {
	if len(candidates) == 0 {
		return nil
	}
	selective := g.IsSelective(seg, candidates[0])
	for len(candidates) > 0 {
		n, next := 1, selective
		for ; n < len(candidates); n++ {
			if next = g.IsSelective(seg, candidates[n]); next != selective {
				break
			}
		}
		if err := g.scanBlocks(seg, candidates[:n], selective); err != nil {
			return err
		}
		selective, candidates = next, candidates[n:]
	}
	return nil
}

func (g *Gatherer) scanBlocks(
	seg *PlannedSegment, candidates []index.Candidate, selective bool,
) error {
	if selective {
		return g.gatherSelective(seg, candidates)
	}
	for i, c := range candidates {
		if len(candidates) > frontPrefetchDistance {
			g.prefetchNext(seg, candidates, i)
		}
		if err := g.gatherOther(seg, c); err != nil {
			return err
		}
	}
	return nil
}

// GatherBlock adds the rows of a block that lie in the box to the batch. The first that holds:
//
//	the block stayed open                 takeOpen, with the rows that were found then
//	few rows of it are to be looked at    gatherSelective
//	payloads are to meet a condition      gatherWhere
//	the residual is 0, rows are taken     gatherWhole, in spans; RowHider.FindSuperseded
//	rows are counted, none can be hidden  count, which looks at no row of a sub-run in the box
//	rows are counted                      Choose
//	else                                  Choose, dropSuperseded, TakeChosen
//
// RowHider drops of the rows that are taken those that it hides.
func (g *Gatherer) GatherBlock(seg *PlannedSegment, c index.Candidate) error {
	if g.IsSelective(seg, c) {
		g.single[0] = c
		return g.gatherSelective(seg, g.single[:])
	}
	return g.gatherOther(seg, c)
}

// gatherOther is GatherBlock for a block that is not selective.
func (g *Gatherer) gatherOther(seg *PlannedSegment, c index.Candidate) error {
	if open := seg.findOpen(c.Block); open != nil {
		return g.takeOpen(seg, open)
	}
	if err := g.flushFull(); err != nil {
		return err
	}
	info, err := g.Open(seg, c)
	if err != nil {
		return err
	}
	if g.Where != nil {
		return g.gatherWhere(seg, info, c)
	}
	if c.Residual == 0 && !g.CountOnly {
		return g.gatherWhole(seg, c.Block, g.Block)
	}
	if g.CountOnly && c.Residual&ResidualTombstones == 0 {
		g.Counts.Rows += uint64(g.count(seg, info, c.Residual))
		return nil
	}
	g.Chosen = g.Choose(seg, info, c.Residual)
	if g.CountOnly {
		g.Counts.Rows += uint64(len(g.Chosen))
		return nil
	}
	g.dropSuperseded(seg, c.Block)
	return g.TakeChosen(seg)
}

// dropSuperseded removes from the chosen rows of a block those known to be superseded.
func (g *Gatherer) dropSuperseded(seg *PlannedSegment, number uint32) {
	known := seg.SupersededOf(number)
	if known == nil || len(known.Positions) == 0 {
		return
	}
	rest, k := known.Positions, 0
	for _, at := range g.Chosen {
		for len(rest) > 0 && uint32(rest[0]) < at {
			rest = rest[1:]
		}
		if len(rest) > 0 && uint32(rest[0]) == at {
			g.Counts.SupersededRows++
			continue
		}
		g.Chosen[k] = at
		k++
	}
	g.Chosen = g.Chosen[:k]
}

// gatherWhole is GatherBlock for an open block that lies inside the box.
func (g *Gatherer) gatherWhole(seg *PlannedSegment, number uint32, b *segment.Block) error {
	counted, err := g.beginWhole(seg, number, b)
	if err == nil && !counted {
		err = g.takeSpan(seg, b, 0, b.Rows())
	}
	g.supersededKnown = false
	return err
}

// beginWhole looks which rows of a block that lies inside the box are superseded, until
// supersededKnown is cleared. Where it is enough to count those that are shown, they are counted.
func (g *Gatherer) beginWhole(
	seg *PlannedSegment, number uint32, b *segment.Block,
) (counted bool, err error) {
	if g.RowHider == nil {
		return false, nil
	}
	g.supersededPositions, g.supersededKnown, err = g.RowHider.FindSuperseded(seg, number, b)
	if err != nil || !g.supersededKnown {
		return false, err
	}
	g.Counts.SupersededRows += uint64(len(g.supersededPositions))
	if g.CountShown {
		g.Counts.Rows += uint64(b.Rows() - len(g.supersededPositions))
	}
	return g.CountShown, nil
}

// flushFull hands the gathered rows to the sink when there are enough.
func (g *Gatherer) flushFull() error {
	if g.Batch.Len() < BatchRows {
		return nil
	}
	return g.Flush()
}

// TakeChosen adds the chosen rows of the open block to the batch, without those that RowHider
// drops.
func (g *Gatherer) TakeChosen(seg *PlannedSegment) error {
	if len(g.Chosen) == 0 {
		return nil
	}
	if lo, hi := int(g.Chosen[0]), int(g.Chosen[len(g.Chosen)-1])+1; hi-lo == len(g.Chosen) {
		return g.takeSpan(seg, g.Block, lo, hi) // ascending, so nothing is missing between
	}
	for rest := g.Chosen; len(rest) > 0; {
		n := len(rest)
		if !g.KeysOnly() {
			n = g.Block.Fit(rest, BatchBytes)
		}
		if err := g.take(seg, g.Block, rest[:n], nil); err != nil {
			return err
		}
		if rest = rest[n:]; len(rest) > 0 || len(g.Batch.Data) >= BatchBytes {
			if err := g.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeSpan is TakeChosen for the rows [lo, hi) of a block.
func (g *Gatherer) takeSpan(seg *PlannedSegment, b *segment.Block, lo, hi int) error {
	for lo < hi {
		end := min(hi, lo+spanRows)
		if !g.KeysOnly() {
			end = b.FitSpan(lo, end, BatchBytes)
		}
		g.span[0] = segment.Span{Lo: uint32(lo), Hi: uint32(end)}
		if err := g.take(seg, b, nil, g.span[:]); err != nil {
			return err
		}
		if lo = end; lo < hi || len(g.Batch.Data) >= BatchBytes {
			if err := g.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// TakeKeyed is TakeChosen for rows whose keys are known: only their payloads are read.
func (g *Gatherer) TakeKeyed(keys []record.Key) error {
	for rest := g.Chosen; len(rest) > 0; {
		n := len(rest)
		if !g.KeysOnly() {
			n = g.Block.Fit(rest, BatchBytes)
		}
		if err := g.takeKeyed(rest[:n], keys[:n]); err != nil {
			return err
		}
		keys = keys[n:]
		if rest = rest[n:]; len(rest) > 0 || len(g.Batch.Data) >= BatchBytes {
			if err := g.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Gatherer) takeKeyed(sel []uint32, keys []record.Key) error {
	start, b := g.beginTake(), &g.Batch
	acqs := b.AcqNs
	const known = segment.Keys | segment.SeriesRuns
	if err := g.Block.GatherColumns(sel, nil, g.Columns&^known, b); err != nil {
		return err
	}
	if g.Columns>>record.Acq&1 != 0 {
		b.AcqNs = slices.Grow(acqs, len(keys))[:start+len(keys)]
	}
	for i, k := range keys {
		at := start + i
		b.CID[at], b.MID[at], b.MOID[at], b.CapNs[at] = k.CID, k.MID, k.MOID, k.CapNs
		if b.AcqNs != nil {
			b.AcqNs[at] = k.AcqNs
		}
	}
	if g.RowHider != nil {
		g.RowHider.DropHidden(b, start)
	}
	return nil
}

// beginTake prepares the batch for rows and returns how many it has.
func (g *Gatherer) beginTake() int {
	start := g.Batch.Len()
	if start == 0 && g.Consumer.PayloadBuffer != nil {
		g.payloadBuffer.begin(&g.Batch, g.Consumer.PayloadBuffer(g.separate))
	}
	return start
}

// take adds rows of a block to the batch: those of sel, or with nil those of spans.
func (g *Gatherer) take(
	seg *PlannedSegment, b *segment.Block, sel []uint32, spans []segment.Span,
) error {
	start, columns := g.beginTake(), g.Columns
	isGathered, err := false, error(nil)
	if g.Where != nil && sel != nil {
		isGathered, err = b.GatherDense(sel, columns, &g.dense, &g.Batch)
	}
	if !isGathered && err == nil {
		err = b.GatherColumns(sel, spans, columns, &g.Batch)
	}
	if err != nil {
		return err
	}
	if columns>>record.Acq&1 != 0 {
		if err := seg.RanksToAcqs(g.Batch.AcqNs[start:]); err != nil {
			return err
		}
	}
	switch {
	case g.supersededKnown: // the rows are one span
		lo, hi := spans[0].Lo, spans[0].Hi
		from, _ := slices.BinarySearch(g.supersededPositions, uint16(lo))
		out := NewRowRemover(&g.Batch, start)
		for _, at := range g.supersededPositions[from:] {
			if uint32(at) >= hi {
				break
			}
			out.Remove(start + int(uint32(at)-lo))
		}
		out.End()
	case g.RowHider != nil && !g.shownOnly:
		g.RowHider.DropHidden(&g.Batch, start)
	}
	return nil
}

// Flush hands the gathered rows to the consumer.
func (g *Gatherer) Flush() error {
	if g.Batch.Len() == 0 {
		return nil
	}
	return cmp.Or(g.FlushLast(), g.CPU.Yield(g.Ctx))
}

// FlushLast is Flush at the end of the work.
func (g *Gatherer) FlushLast() error {
	n := g.Batch.Len()
	if n == 0 {
		return nil
	}
	g.Counts.Rows += uint64(n)
	err := g.Consumer.Rows(&g.Batch)
	g.Batch.Reset()
	if g.payloadBuffer.end(&g.Batch) {
		g.Consumer.PayloadBuffer = nil // it is too small
	}
	return err
}

// KeysOnly reports whether no payload is read.
func (g *Gatherer) KeysOnly() bool { return g.Columns&segment.Payloads == 0 }

// BeginSeparateBatch begins a separate batch: rows that were gathered before stay in outer until
// EndSeparateBatch.
func (g *Gatherer) BeginSeparateBatch() {
	if g.separate = g.Batch.Len() > 0; g.separate {
		g.swapBatches()
	}
}

// EndSeparateBatch continues the batch that BeginSeparateBatch set aside. The separate one is
// empty.
func (g *Gatherer) EndSeparateBatch() {
	if g.separate {
		g.swapBatches()
		g.separate = false
	}
}

func (g *Gatherer) swapBatches() {
	g.Batch, g.outer = g.outer, g.Batch
	g.payloadBuffer, g.outerPayloadBuffer = g.outerPayloadBuffer, g.payloadBuffer
}

// ClosePrefetchRing ends the use of the blocks that Next opened.
func (g *Gatherer) ClosePrefetchRing() {
	for i := range g.prefetchRing {
		g.prefetchRing[i].close()
	}
}
