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
	subRuns  []subRun // that have rows in the box
	Spans    []segment.Span
	rows     int
}

// subRun is the rows [lo, hi) of a block, and which dimensions are to be tested on them.
type subRun struct {
	residual uint8
	lo, hi   int
}

// IsSelective reports whether only devices are to be looked at in a block, and can be searched for,
// or whether one dimension, or such devices and other dimensions, leave few rows of it.
func (r *Reader) IsSelective(seg *PlannedSegment, c index.Candidate) bool {
	if c.Residual == 0 || c.Residual&ResidualTombstones != 0 || seg.findOpen(c.Block) != nil {
		return false
	}
	searched := c.Residual>>record.MID&1 == 1 && SortedByDevice(seg.Index.Block(c.Block))
	if c.Residual == 1<<record.MID {
		return searched
	}
	several := c.Residual&(c.Residual-1) != 0
	return !r.CountOnly && (searched || !several) && seg.RowsIn(r.Box, c) <= fewRows
}

// isPrefetchable is IsSelective where blocks that lie inside the box are prefetched, too.
func (r *Reader) isPrefetchable(seg *PlannedSegment, c index.Candidate) bool {
	return c.Residual == 0 && seg.findOpen(c.Block) == nil || r.IsSelective(seg, c)
}

// gatherSelective is GatherBlock for blocks of the same task of which few rows are to be looked at.
func (g *Gatherer) gatherSelective(seg *PlannedSegment, candidates []index.Candidate) error {
	for len(g.prefetched) < len(candidates) {
		g.prefetched = append(g.prefetched, new(Prefetched))
	}
	all := g.prefetched[:len(candidates)]
	err := g.openSelective(seg, candidates, all)
	for _, p := range all {
		p.close()
	}
	return err
}

func (g *Gatherer) openSelective(
	seg *PlannedSegment, candidates []index.Candidate, all []*Prefetched,
) error {
	for _, c := range candidates {
		g.prefetchFront(seg, c)
	}
	for i, c := range candidates {
		if err := g.openAhead(seg, c, all[i]); err != nil {
			return err
		}
	}
	for _, p := range all {
		g.searchBlock(seg, p)
		if !g.CountOnly {
			p.Block.PrefetchRows(p.Spans, g.Columns&^segment.Columns(p.residual))
		}
	}
	for _, p := range all {
		if err := g.takePrefetched(seg, p); err != nil {
			return err
		}
		p.close() // at once: it may have a large payload open
	}
	return nil
}

// close ends the use of a block.
func (p *Prefetched) close() {
	p.info = nil // it would keep the directory of a segment that merges replace
	p.Block.Detach()
}

// openAhead opens a block.
func (r *Reader) openAhead(seg *PlannedSegment, c index.Candidate, p *Prefetched) (err error) {
	if p.info, err = r.openAs(seg, c, &p.Block); err != nil {
		return err
	}
	p.residual, p.number = c.Residual, c.Block
	if c.Residual == 0 {
		return nil
	}
	r.listSubRuns(seg, p)
	if c.Residual>>record.MID&1 == 0 {
		p.prefetchResidual()
		return nil
	}
	p.devices = r.devicesOf(&p.Block, p.info, p.devices[:0])
	p.Spans = p.Spans[:0]
	for _, s := range p.subRuns {
		for _, m := range p.devices {
			p.Spans = p.Block.LikelyMIDs(s.lo, s.hi, m, p.Spans)
		}
	}
	p.Block.PrefetchMIDs(p.Spans)
	return nil
}

// listSubRuns lists the sub-runs of a block that have rows in the box.
func (r *Reader) listSubRuns(seg *PlannedSegment, p *Prefetched) {
	p.subRuns = p.subRuns[:0]
	lo := 0
	for i := range p.info.Subs {
		sub := &p.info.Subs[i]
		hi := int(sub.End)
		if residual, some := r.residualOf(seg, sub, p.residual); some && lo < hi {
			p.subRuns = append(p.subRuns, subRun{residual, lo, hi})
		}
		lo = hi
	}
}

// prefetchResidual asks for the column of the first residual dimension, of the sub-runs whose rows
// it is tested on.
func (p *Prefetched) prefetchResidual() {
	p.Spans = p.Spans[:0]
	for _, s := range p.subRuns {
		if s.residual != 0 {
			p.Spans = append(p.Spans, segment.Span{Lo: uint32(s.lo), Hi: uint32(s.hi)})
		}
	}
	p.Block.PrefetchColumn(record.Dim(bits.TrailingZeros8(p.residual)), p.Spans)
}

// searchBlock finds the rows of a block.
func (r *Reader) searchBlock(seg *PlannedSegment, p *Prefetched) {
	p.Spans, p.rows = p.Spans[:0], 0
	if p.residual == 0 {
		p.rows = p.Block.Rows()
		p.Spans = append(p.Spans, segment.Span{Hi: uint32(p.rows)})
		return
	}
	if p.residual>>record.MID&1 == 0 {
		r.Block = &p.Block
		r.Chosen = r.Choose(seg, p.info, p.residual)
		p.addRows(r.Chosen)
		return
	}
	for _, s := range p.subRuns {
		residual := s.residual &^ (1 << record.MID)
		for _, m := range p.devices {
			switch from, to := p.Block.SearchMIDs(s.lo, s.hi, m); {
			case from >= to:
			case residual == 0:
				p.Spans = append(p.Spans, segment.Span{Lo: uint32(from), Hi: uint32(to)})
				p.rows += to - from
			default:
				r.Block = &p.Block
				r.Chosen = r.filterSpan(seg, residual, from, to, r.Chosen[:0])
				p.addRows(r.Chosen)
			}
		}
	}
}

// addRows adds rows, which ascend, to those that are to be taken.
func (p *Prefetched) addRows(rows []uint32) {
	p.rows += len(rows)
	for _, at := range rows {
		if n := len(p.Spans); n > 0 && p.Spans[n-1].Hi == at {
			p.Spans[n-1].Hi++
			continue
		}
		p.Spans = append(p.Spans, segment.Span{Lo: at, Hi: at + 1})
	}
}

// takePrefetched adds the rows of a block to the batch.
func (g *Gatherer) takePrefetched(seg *PlannedSegment, p *Prefetched) error {
	if g.CountOnly || p.rows == 0 {
		g.Counts.Rows += uint64(p.rows)
		return nil
	}
	if err := g.flushFull(); err != nil {
		return err
	}
	if g.Where != nil {
		g.chooseSpans(p)
		return g.takeWhere(seg, p.info, p.number, p.residual)
	}
	if p.residual == 0 {
		counted, err := g.beginWhole(seg, p.number, &p.Block)
		defer func() { g.supersededKnown = false }()
		if counted || err != nil {
			return err
		}
	} else if known := seg.SupersededOf(p.number); known != nil && len(known.Positions) > 0 {
		g.chooseSpans(p)
		g.dropSuperseded(seg, p.number)
		return g.TakeChosen(seg)
	}
	if len(g.Batch.Data) < BatchBytes &&
		(g.KeysOnly() || p.Block.FitSpans(p.rows, BatchBytes)) {
		return g.take(seg, &p.Block, nil, p.Spans)
	}
	if len(p.Spans) == 1 {
		return g.takeSpan(seg, &p.Block, int(p.Spans[0].Lo), int(p.Spans[0].Hi))
	}
	g.chooseSpans(p)
	return g.TakeChosen(seg)
}

// chooseSpans chooses the rows of the spans of a block.
func (g *Gatherer) chooseSpans(p *Prefetched) {
	g.Block, g.Chosen = &p.Block, g.Chosen[:0]
	for _, s := range p.Spans {
		for i := s.Lo; i < s.Hi; i++ {
			g.Chosen = append(g.Chosen, i)
		}
	}
}

// Next returns block i of those that are opened one after another, nil if it is not one
// to be prefetched. The next one is searched meanwhile, and the one after that opened.
func (g *Gatherer) Next(
	seg *PlannedSegment, open []index.Candidate, i int,
) (*Prefetched, error) {
	prefetchRing := &g.prefetchRing
	toOpen, toSearch, toLoad := i+2, i+1, i+frontPrefetchDistance
	if i == 0 {
		toOpen, toSearch, toLoad = 0, 0, 0
	}
	for k := toLoad; k < min(i+frontPrefetchDistance+1, len(open)); k++ {
		g.prefetchFront(seg, open[k])
	}
	for k := toOpen; k < min(i+3, len(open)); k++ {
		if g.isPrefetchable(seg, open[k]) {
			if err := g.openAhead(seg, open[k], &prefetchRing[k%len(prefetchRing)]); err != nil {
				return nil, err
			}
		}
	}
	for k := toSearch; k < min(i+2, len(open)); k++ {
		if p := &prefetchRing[k%len(prefetchRing)]; p.info != nil {
			g.searchBlock(seg, p)
			g.prefetch.Set(&p.Block, p.Spans, g.Columns)
			if k == i {
				g.prefetch.Finish()
			}
		}
	}
	if p := &prefetchRing[i%len(prefetchRing)]; p.info != nil {
		g.prefetch.Attach(&p.Block)
		return p, nil
	}
	g.prefetch.Finish()
	return nil, nil
}

// GatherOpened is GatherBlock for a block that may be prefetched.
func (g *Gatherer) GatherOpened(
	seg *PlannedSegment, c index.Candidate, p *Prefetched,
) error {
	if p == nil {
		return g.GatherBlock(seg, c)
	}
	defer p.close()
	defer g.prefetch.Finish()
	return g.takePrefetched(seg, p)
}
