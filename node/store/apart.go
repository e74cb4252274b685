package store

import (
	"context"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// minApart is how many rows a block is to give, by its zones, to be a part: below, what it
	// takes to fold and find a part shows beside reading it.
	minApart = 512
	// maxLooks is up to how many superseded readings are held against the zones of each block.
	maxLooks = 64
)

// Part is what a scan finds in a sealed block. A part has the same rows in whatever question it
// comes up.
type Part struct {
	partials.Fragment
	Known bool // set by who is told of it: its rows are not needed
}

// Apart is a sink's other half that gets parts one by one, each apart from other rows, or knows
// already what comes of one. Which parts there are follows from what is stored and asked alone.
type Apart interface {
	// Wants is asked before blocks of a segment that has so many. Where it returns false, their
	// rows come with all others.
	Wants(seg *partials.Segment, blocks int) bool
	// BeginLot says of which lot all is that comes until EndLot. Lots have the same rows, in the
	// same batches, in whatever worker and in whatever order they are done; their numbers ascend,
	// not one by one.
	BeginLot(number int)
	EndLot() error
	// Plan says which parts of that segment come next. They are valid until the next Plan.
	Plan(ctx context.Context, parts []Part) error
	// Begin is called for each of them in turn. Where it returns true, rows are needed and come
	// now, until End, which is called when all have come.
	Begin() (rows bool)
	End()
}

// apart is what a worker needs to hand over parts.
type apart struct {
	parts []Part
	of    []bool            // by candidate, whether it is a part
	open  []index.Candidate // that are likely to be opened
	batch record.Batch      // of rows of a part
	lent  lent              // to it
	ring  [3]held           // blocks that are opened and searched ahead
	loads segment.Loads     // of the next of these
}

// planApart tells of the parts among candidates, and leaves those that are likely to be opened.
func (w *worker) planApart(t *task, candidates []index.Candidate) ([]index.Candidate, error) {
	a := &w.apart
	a.parts, a.of, a.open = a.parts[:0], a.of[:0], a.open[:0]
	for _, c := range candidates {
		p, ok := w.partOf(t, c)
		if ok {
			a.parts = append(a.parts, Part{Fragment: p})
		}
		a.of = append(a.of, ok)
	}
	if len(a.parts) == 0 {
		return candidates, nil
	}
	w.parts += uint64(len(a.parts))
	if err := w.to.Apart.Plan(w.scan.ctx, a.parts); err != nil {
		return nil, err
	}
	next := 0
	for i, c := range candidates {
		known := false
		if a.of[i] {
			if known = a.parts[next].Known; known {
				w.known++
			}
			next++
		}
		if !known {
			a.open = append(a.open, c)
		}
	}
	return a.open, nil
}

// partOf returns what the box holds of a block, if it is a part: if no row of it is hidden, and the
// box cuts it simply and leaves enough.
func (w *worker) partOf(t *task, c index.Candidate) (p partials.Fragment, ok bool) {
	if c.Need&needHidden != 0 {
		return p, false
	}
	info := t.segment.idx.Block(c.Block)
	if w.scan.view != record.ViewAll &&
		(len(w.scan.winners) > 0 || !t.piece.newest.misses(info)) {
		return p, false
	}
	p.Block, p.Need = c.Block, uint32(c.Need)
	rows, cuts := float64(info.Rows), 0
	for d := range record.NumDims {
		if c.Need>>d&1 == 0 {
			continue
		}
		set := w.box[d]
		if record.Dim(d) == record.Acq {
			set = t.segment.ranks
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
	return p, rows >= minApart
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

// misses reports whether none of the readings can have a version in a block.
func (n *newest) misses(info *index.BlockInfo) bool {
	if n == nil || n.count == 0 {
		return true
	}
	if n.count > maxLooks {
		return false
	}
	for i, tag := range n.tags {
		if tag != 0 && n.versions[i].within(info) {
			return false
		}
	}
	return true
}

func (r *reading) within(info *index.BlockInfo) bool {
	in := func(d record.Dim, v int64) bool { return info.Min[d] <= v && v <= info.Max[d] }
	return in(record.CID, int64(r.cid)) && in(record.MOID, int64(r.moid)) &&
		in(record.MID, r.mid) && in(record.Cap, r.cap)
}

// scanCandidates is the scan of a task's blocks of which some are parts.
func (w *worker) scanCandidates(t *task, candidates []index.Candidate) error {
	open, err := w.planApart(t, candidates)
	if err != nil {
		return err
	}
	w.scan.store.fetch(t.segment.sealedSegment, open)
	defer func() {
		for i := range w.apart.ring {
			w.apart.ring[i].forget()
		}
	}()
	next := 0
	for i, c := range candidates {
		var h *held
		if next < len(open) && open[next] == c {
			if h, err = w.heldAhead(t.segment, open, next); err != nil {
				return err
			}
			next++
		}
		if w.apart.of[i] {
			err = w.scanApart(t, c, h)
		} else {
			err = w.scanOrTake(t, c, h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scanOrTake is scanBlock for a block that may be held.
func (w *worker) scanOrTake(t *task, c index.Candidate, h *held) error {
	if h == nil {
		return w.scanBlock(t, c)
	}
	defer h.forget()
	defer w.apart.loads.Finish()
	return w.takeHeld(t, h)
}

// scanApart hands over the rows of a part, if they are needed. Rows that were gathered before stay
// where they are, so that they come in the same batches whether the part is known or not.
func (w *worker) scanApart(t *task, c index.Candidate, h *held) error {
	a := &w.apart
	if !w.to.Apart.Begin() {
		return nil
	}
	w.beside = w.batch.Len() > 0
	if w.beside {
		w.batch, a.batch, w.lent, a.lent = a.batch, w.batch, a.lent, w.lent
	}
	err := w.scanOrTake(t, c, h)
	if err == nil {
		err = w.flush()
	}
	if w.beside {
		w.batch, a.batch, w.lent, a.lent = a.batch, w.batch, a.lent, w.lent
		w.beside = false
	}
	if err == nil {
		err = t.segment.verifyBlock(c.Block) // what came of its rows is kept, and not read again
	}
	if err == nil {
		w.to.Apart.End()
	}
	return err
}
