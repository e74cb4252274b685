package store

import (
	"context"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// A second worker has to be woken, which takes as long as a processor that is awake needs for a
// hundred blocks. So it must be worth it, counted in rows that are read.
const (
	// parallelRows is how many rows make a second worker pay.
	parallelRows = 12_000
	// blockRows is how many rows cost as much as opening a block and searching it.
	blockRows = 32
	// parallelHeadRows is how many rows of heads make one pay, most of which are not looked at.
	parallelHeadRows = 1 << 16
	// fewRanges of a dimension are looked at to tell how many rows of a block are read.
	fewRanges = 4
)

type besideKey struct{}

// Beside says of scans that so many of this process answer one question at once: they share the
// processors instead of taking all of them each.
func Beside(ctx context.Context, scans int) context.Context {
	return context.WithValue(ctx, besideKey{}, scans)
}

// mostWorkers returns how many workers the scan may have.
func (sc *scan) mostWorkers() int {
	if beside, ok := sc.ctx.Value(besideKey{}).(int); ok {
		return max(1, sc.store.opt.Workers/beside)
	}
	return sc.store.opt.Workers
}

// workers returns how many workers are worth it for the tasks.
func (sc *scan) workers() int {
	most := max(1, min(sc.mostWorkers(), len(sc.tasks)))
	if sc.lastN > 0 {
		return most
	}
	blocks, headRows := 0, 0
	for i := range sc.tasks {
		if t := &sc.tasks[i]; t.head != nil {
			headRows += t.head.Rows()
		} else {
			blocks += t.to - t.from
		}
	}
	switch {
	case len(sc.waiting) > 0:
		return sc.mostWorkers()
	case headRows >= parallelHeadRows || sc.isMuch(blocks*blockRows):
		return most
	}
	return 1
}

// isMuch reports whether the tasks read enough rows beside what opening their blocks costs.
func (sc *scan) isMuch(rows int) bool {
	enough := sc.store.opt.parallelRows
	for i := 0; i < len(sc.tasks) && rows < enough; i++ {
		t := &sc.tasks[i]
		if t.segment == nil {
			continue
		}
		for _, c := range t.segment.plan.Candidates[t.from:t.to] {
			rows += t.segment.rowsIn(&t.piece.box, c)
		}
	}
	return rows >= enough
}

// rowsIn estimates how many rows of a block lie in a box, as if they were spread evenly.
func (seg *segmentScan) rowsIn(box *record.Box, c index.Candidate) int {
	info := seg.idx.Block(c.Block)
	rows := float64(info.Rows)
	for d := range record.NumDims {
		set := box[d]
		if record.Dim(d) == record.Acq {
			set = seg.ranks
		}
		if c.Need>>d&1 == 0 || len(set) > fewRanges {
			continue
		}
		least, end, in := float64(info.Min[d]), float64(info.Max[d])+1, 0.0
		for _, r := range set {
			in += max(0, min(float64(r.To), end)-max(float64(r.From), least))
		}
		rows *= in / (end - least)
	}
	return int(rows)
}
