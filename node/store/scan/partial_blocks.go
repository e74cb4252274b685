package scan

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/sdk/record"
)

// minPartialRows is the least estimate of rows that makes a block a partial: with fewer, finding
// and merging a state costs as much as reading the rows.
const minPartialRows = 512

// partialBuffers is what a worker needs to hand over partials.
type partialBuffers struct {
	partials  []blocks.BlockPartial
	isPartial []bool            // by candidate, whether it is a partial
	open      []index.Candidate // that are likely to be opened
}

// planPartials looks up the states of the partials among candidates, and returns the candidates
// that are opened.
func (w *worker) planPartials(t *task, candidates []index.Candidate) ([]index.Candidate, error) {
	a := &w.partials
	a.partials, a.isPartial, a.open = a.partials[:0], a.isPartial[:0], a.open[:0]
	for _, c := range candidates {
		p, ok := w.partialOf(t, c)
		if ok {
			a.partials = append(a.partials, blocks.BlockPartial{Partial: p})
		}
		a.isPartial = append(a.isPartial, ok)
	}
	if len(a.partials) == 0 {
		return candidates, nil
	}
	w.partialCount += uint64(len(a.partials))
	if err := w.Consumer.Partials.LookUp(w.scan.Ctx, a.partials); err != nil {
		return nil, err
	}
	next := 0
	for i, c := range candidates {
		hasState := false
		if a.isPartial[i] {
			if hasState = a.partials[next].HasState; hasState {
				w.partialsWithState++
			}
			next++
		}
		if !hasState {
			a.open = append(a.open, c)
		}
	}
	return a.open, nil
}

// partialOf returns what the box selects of a block, if that is a partial: if no row of it is
// hidden, the box bounds it by one range in a few dimensions, and enough rows are left.
func (w *worker) partialOf(t *task, c index.Candidate) (p partials.Partial, ok bool) {
	if c.Residual&blocks.ResidualTombstones != 0 {
		return p, false
	}
	info := t.segment.Index.Block(c.Block)
	if w.scan.View != record.ViewAll {
		known := t.segment.SupersededOf(c.Block)
		if known != nil && len(known.Positions) > 0 || len(w.scan.NewestAcqs) > 0 ||
			!t.partition.HasNoNewer(info, known) {
			return p, false
		}
	}
	p.Block, p.Bounded = c.Block, uint32(c.Residual)
	rows, cuts := float64(info.Rows), 0
	for d := range record.NumDims {
		if c.Residual>>d&1 == 0 {
			continue
		}
		set := w.Box[d]
		if record.Dim(d) == record.Acq {
			set = t.segment.Ranks
		}
		r, one := onlyIn(set, info.Min[d], info.Max[d])
		if !one || cuts == partials.Cuts {
			return p, false
		}
		p.From[cuts], p.To[cuts] = r.From, r.To
		cuts++
		width := float64(info.Max[d]) - float64(info.Min[d]) + 1
		rows *= (float64(r.To) - float64(r.From)) / width
	}
	return p, rows >= minPartialRows
}

// onlyIn returns what of a set lies between the least and the greatest value, if it is one range.
func onlyIn(set record.RangeSet, least, greatest int64) (in record.Range, one bool) {
	for _, r := range set {
		if r.To <= least || r.From > greatest {
			continue
		}
		if one {
			return in, false
		}
		// Greatest is below the end of its dimension, so one more is no overflow.
		in, one = record.Range{From: max(r.From, least), To: min(r.To, greatest+1)}, true
	}
	return in, one
}

// scanWithPartials scans the blocks of a task some of which are partials.
func (w *worker) scanWithPartials(t *task, candidates []index.Candidate) error {
	open, err := w.planPartials(t, candidates)
	if err != nil {
		return err
	}
	w.scan.Access.Readahead.Prefetch(t.segment.Segment, open)
	defer w.ClosePrefetchRing()
	next := 0
	for i, c := range candidates {
		var p *blocks.Prefetched
		if next < len(open) && open[next] == c {
			if p, err = w.Next(t.segment, open, next); err != nil {
				return err
			}
			next++
		}
		if w.partials.isPartial[i] {
			err = w.scanPartial(t, c, p)
		} else {
			err = w.GatherOpened(t.segment, c, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scanPartial hands over the rows of a partial, if they are needed. Rows that were gathered before
// stay where they are, so that they come in the same batches whether the partial has a state or
// not.
func (w *worker) scanPartial(t *task, c index.Candidate, p *blocks.Prefetched) error {
	if !w.Consumer.Partials.Begin() {
		return nil
	}
	w.BeginSeparateBatch()
	err := w.GatherOpened(t.segment, c, p)
	if err == nil {
		err = w.Flush()
	}
	w.EndSeparateBatch()
	if err == nil {
		err = t.segment.VerifyBlock(c.Block) // what came of its rows is kept, and not read again
	}
	if err == nil {
		w.Consumer.Partials.End()
	}
	return err
}
