package diff

import (
	"math"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// fewPairs are looked for in a block one by one; for more, all of its keys are read.
	fewPairs = 64
)

// lookup finds the versions of the readings in a table.
type lookup struct {
	versions.Point
	plan       index.Plan
	candidates []index.Candidate
	wanted     []int // indexes in the table of the readings that a block can hold
	sel        []uint32
	keys, rows record.Batch
}

// findVersions looks up the versions of all readings in the table.
//
// Errors: versions.ErrFull when their payloads take more space than there is.
func (d *comparison) findVersions(p *versions.Partition) error {
	if len(d.table.pairs) == 0 {
		return nil
	}
	var err error
	p.EachHead(func(h *index.Head) {
		if err == nil && h.Rows() > 0 {
			err = d.lookInHead(h, p)
		}
	})
	for _, sealed := range slices.Backward(p.State.Sealed) {
		if err == nil {
			err = d.lookInSegment(sealed)
		}
	}
	return err
}

func (d *comparison) lookInHead(h *index.Head, p *versions.Partition) error {
	take := func(b *record.Batch, _ []uint64) error {
		for i := range b.Len() {
			if pair := d.table.find(b, i); pair != nil && b.AcqNs[i] < d.UpperAcqNs {
				d.offer(pair, b, i)
			}
		}
		return d.table.checkLimit()
	}
	l := &d.look
	if len(d.table.pairs)*versions.HeadRowsPerPlan > h.Rows() {
		box := p.Box
		box[record.Acq] = nil
		return h.Scan(&box, d.UpperAcqNs, false, take)
	}
	l.Point.Box[record.Acq] = nil // with a range, and no end, a head looks the device up
	for i := range d.table.pairs {
		l.MoveTo(&d.table.pairs[i].Reading)
		if err := h.Scan(&l.Point.Box, math.MaxInt64, false, take); err != nil {
			return err
		}
	}
	return d.Ctx.Err()
}

// offer takes row i for the state at each acq that shows it and knows no newer one.
func (d *comparison) offer(p *pair, b *record.Batch, i int) {
	k := b.Key(i)
	if d.improves(&p.new, k, d.atTo) {
		d.table.keep(&p.new, b, i)
	}
	if k.AcqNs < d.fromNs && d.improves(&p.old, k, d.atFrom) {
		d.table.keep(&p.old, b, i)
	}
}

// improves reports whether a row is newer than what is known of an acq, and not hidden there.
func (d *comparison) improves(v *pairState, k record.Key, hiding *tombstone.Tree) bool {
	return (!v.known || k.AcqNs > v.acqNs) && hiding.Oldest(k) == nil
}

func (d *comparison) lookInSegment(sealed *shards.Segment) error {
	_, hi := sealed.Index.RankRange(math.MinInt64, d.UpperAcqNs)
	if hi == 0 {
		return nil
	}
	seg := &blocks.PlannedSegment{Segment: sealed,
		Ranks: record.RangeSet{{From: 0, To: int64(hi)}}}
	l := &d.look
	l.candidates = l.candidates[:0]
	if len(d.table.pairs)*versions.BlocksPerPlan < sealed.Index.Blocks() {
		d.planPairs(sealed)
	} else {
		for i := range sealed.Index.Blocks() {
			l.candidates = append(l.candidates, index.Candidate{Block: uint32(i)})
		}
	}
	l.candidates = slices.DeleteFunc(l.candidates, func(c index.Candidate) bool {
		info := sealed.Index.Block(c.Block)
		return info.Min[record.Acq] >= int64(hi) || !d.choosePairs(info)
	})
	for c := range d.Access.Readahead.Each(sealed, l.candidates) {
		if err := d.Ctx.Err(); err != nil {
			return err
		}
		if err := d.lookInBlock(seg, c); err != nil {
			return err
		}
	}
	return nil
}

// planPairs asks the index for the blocks of each reading.
func (d *comparison) planPairs(sealed *shards.Segment) {
	l := &d.look
	l.Point.Box[record.Acq] = below(d.UpperAcqNs)
	for i := range d.table.pairs {
		l.MoveTo(&d.table.pairs[i].Reading)
		if _, ok := shards.PrunedBy(sealed, &l.Point.Box); ok {
			continue
		}
		sealed.Index.Plan(&l.Point.Box, &l.plan)
		l.candidates = append(l.candidates, l.plan.Candidates...)
	}
	slices.SortFunc(l.candidates, func(a, b index.Candidate) int {
		return int(a.Block) - int(b.Block)
	})
	l.candidates = slices.CompactFunc(l.candidates, func(a, b index.Candidate) bool {
		return a.Block == b.Block
	})
}

// choosePairs lists in wanted which readings the zones of a block leave, one more than few at most,
// and reports whether there are any. It leaps over the readings between those of one device and the
// next.
func (d *comparison) choosePairs(info *index.BlockInfo) bool {
	l, pairs := &d.look, d.table.pairs
	l.wanted = l.wanted[:0]
	low := versions.LowestIn(info)
	for i := from(pairs, 0, &low); i < len(pairs) && len(l.wanted) <= fewPairs; {
		r, next := pairs[i].Reading, low
		switch {
		case int64(r.CID) > info.Max[record.CID]:
			return len(l.wanted) > 0
		case int64(r.MOID) < info.Min[record.MOID]:
			next.CID = r.CID
		case int64(r.MOID) > info.Max[record.MOID]:
			next.CID = r.CID + 1 // the greatest is reserved, here and below
		case r.MID < info.Min[record.MID]:
			next.CID, next.MOID = r.CID, r.MOID
		case r.MID > info.Max[record.MID]:
			next.CID, next.MOID = r.CID, r.MOID+1
		case r.CapNs < info.Min[record.Cap]:
			next.CID, next.MOID, next.MID = r.CID, r.MOID, r.MID
		case r.CapNs > info.Max[record.Cap]:
			next.CID, next.MOID, next.MID = r.CID, r.MOID, r.MID+1
		default:
			l.wanted = append(l.wanted, i)
			i++
			continue
		}
		i = from(pairs, i+1, &next)
	}
	return len(l.wanted) > 0
}

// from returns the index of the first reading at or after start that is not below r.
func from(pairs []pair, start int, r *versions.Reading) int {
	if start < len(pairs) && pairs[start].Compare(r) >= 0 {
		return start
	}
	return start + sort.Search(len(pairs)-start, func(i int) bool {
		return pairs[start+i].Compare(r) >= 0
	})
}

// lookInBlock offers the rows of a block whose readings are in the table.
func (d *comparison) lookInBlock(seg *blocks.PlannedSegment, c index.Candidate) error {
	l, g := &d.look, &d.reader
	info, err := g.Open(seg, c)
	if err != nil {
		return err
	}
	l.sel = l.sel[:0]
	if d.choosePairs(info); len(l.wanted) > fewPairs {
		for i := range g.Block.Rows() {
			l.sel = append(l.sel, uint32(i))
		}
	} else {
		g.Box = &l.Point.Box
		for _, at := range l.wanted {
			l.MoveTo(&d.table.pairs[at].Reading)
			l.sel = append(l.sel, g.Choose(seg, info, 1<<record.NumDims-1)...)
		}
		slices.Sort(l.sel)
	}
	if err := d.leaveBetter(seg); err != nil {
		return err
	}
	for rest := l.sel; len(rest) > 0; {
		n := g.Block.Fit(rest, blocks.BatchBytes)
		l.rows.Reset()
		if err := gather(seg, &g.Reader, rest[:n], segment.AllColumns, &l.rows); err != nil {
			return err
		}
		for i := range l.rows.Len() {
			d.offer(d.table.find(&l.rows, i), &l.rows, i)
		}
		if err := d.table.checkLimit(); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// leaveBetter removes from the selection the rows of the open block that no pair wants, so that
// only payloads are read that may be shown.
func (d *comparison) leaveBetter(seg *blocks.PlannedSegment) error {
	l := &d.look
	l.keys.Reset()
	if err := gather(seg, &d.reader.Reader, l.sel, segment.Keys, &l.keys); err != nil {
		return err
	}
	keep := l.sel[:0]
	for i := range l.keys.Len() {
		pair, k := d.table.find(&l.keys, i), l.keys.Key(i)
		if pair != nil && k.AcqNs < d.UpperAcqNs && (d.improves(&pair.new, k, d.atTo) ||
			k.AcqNs < d.fromNs && d.improves(&pair.old, k, d.atFrom)) {
			keep = append(keep, l.sel[i])
		}
	}
	l.sel = keep
	return nil
}

// gather appends stamped rows of the open block to a batch that is empty.
func gather(
	seg *blocks.PlannedSegment, r *blocks.Reader, sel []uint32, columns segment.Columns,
	to *record.Batch,
) error {
	if err := r.Block.GatherColumns(sel, nil, columns, to); err != nil {
		return err
	}
	return seg.RanksToAcqs(to.AcqNs)
}
