package store

import (
	"math"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// eachMainHead calls visit with the heads of rows that came above the horizon, newest first.
func (p *partition) eachMainHead(visit func(*index.Head)) {
	main := p.state
	if main.Main != nil {
		main = main.Main
	}
	visit(main.Head)
	for _, immutable := range slices.Backward(main.Immutable) {
		visit(immutable.Head)
	}
}

// findBackdated adds to the newest of a partition the rows that came below its horizon, and notes
// their readings: what hides them need not be flagged.
//
// Errors: errFull when they are more readings than there is room for.
func (sc *scan) findBackdated(p *partition) error {
	p.backdated = p.backdated[:0]
	if p.state.Backdated == nil {
		return nil
	}
	take := func(b *record.Batch, _ []uint64) error {
		for i := range b.Len() {
			if sc.coveredBy(b.Key(i)) != nil {
				continue
			}
			if err := p.newest.add(b, i); err != nil {
				return err
			}
		}
		return sc.ctx.Err()
	}
	if err := p.state.Backdated.Head.Scan(&p.box, sc.horizon, true, take); err != nil {
		return err
	}
	for _, immutable := range p.state.Backdated.Immutable {
		if err := immutable.Head.Scan(&p.box, sc.horizon, true, take); err != nil {
			return err
		}
	}
	for _, seg := range p.segments {
		if !seg.Meta.IsBackdated() {
			continue
		}
		if err := sc.findFlagged(p, seg, seg.Plan.Candidates); err != nil {
			return err
		}
	}
	for i, tag := range p.newest.tags {
		if tag != 0 {
			p.backdated = append(p.backdated, p.newest.versions[i].reading)
		}
	}
	slices.SortFunc(p.backdated, func(a, b reading) int { return a.compare(&b) })
	return nil
}

// findNewer looks for the newer versions of the readings that findBackdated noted.
func (sc *scan) findNewer(p *partition) error {
	if len(p.backdated) == 0 {
		return nil
	}
	var err error
	p.eachMainHead(func(h *index.Head) {
		if err == nil && h.Rows() > 0 {
			err = sc.findNewerInHead(p, h)
		}
	})
	for _, seg := range p.segments {
		if err == nil && !seg.Meta.IsBackdated() {
			err = sc.findNewerInSegment(p, seg)
		}
	}
	return err
}

func (sc *scan) findNewerInHead(p *partition, h *index.Head) error {
	take := func(b *record.Batch, _ []uint64) error {
		for i := range b.Len() {
			if k := b.Key(i); p.box.Contains(k) && sc.coveredBy(k) == nil {
				p.newest.raise(b, i)
			}
		}
		return sc.ctx.Err()
	}
	if len(p.backdated)*headRowsPerPlan > h.Rows() {
		return h.Scan(&p.box, sc.horizon, true, take)
	}
	var l lookup // subtract a range of acq, and with no end, a head looks the device up
	for i := range p.backdated {
		l.pointAt(&p.backdated[i])
		if err := h.Scan(&l.point, math.MaxInt64, true, take); err != nil {
			return err
		}
	}
	return nil
}

// findNewerInSegment reads the blocks of a segment that can hold one of the readings.
func (sc *scan) findNewerInSegment(p *partition, seg *blocks.Planned) error {
	w := &sc.finder
	w.Box = &p.box
	wanted := sc.blocksWithNewer(p, seg)
	for c := range sc.store.ahead.Each(seg.Segment, wanted) {
		if err := sc.ctx.Err(); err != nil {
			return err
		}
		if err := w.Keys(seg, c, &w.Batch); err != nil {
			return err
		}
		for i := range w.Batch.Len() {
			p.newest.raise(&w.Batch, i)
		}
	}
	return nil
}

// blocksWithNewer returns the candidates of a segment that can hold one of the readings: where
// these are few, by planning for each.
func (sc *scan) blocksWithNewer(p *partition, seg *blocks.Planned) []index.Candidate {
	planned := map[uint32]bool{}
	few := len(p.backdated)*blocksPerPlan < len(seg.Plan.Candidates)
	if few {
		var l lookup
		l.point[record.Acq] = p.box[record.Acq]
		for i := range p.backdated {
			l.pointAt(&p.backdated[i])
			if _, ok := shards.Missed(seg.Segment, &l.point); ok {
				continue
			}
			seg.Index.Plan(&l.point, &l.plan)
			for _, c := range l.plan.Candidates {
				planned[c.Block] = true
			}
		}
	}
	var wanted []index.Candidate
	for _, c := range seg.Plan.Candidates {
		if few && planned[c.Block] || !few && anyIn(p.backdated, seg.Index.Block(c.Block)) {
			wanted = append(wanted, c)
		}
	}
	return wanted
}

// anyIn reports whether one of some readings, which ascend, may lie in a block.
func anyIn(readings []reading, info *index.BlockInfo) bool {
	low := reading{int32(info.Min[record.CID]), int32(info.Min[record.MOID]),
		info.Min[record.MID], info.Min[record.Cap]}
	high := reading{int32(info.Max[record.CID]), int32(info.Max[record.MOID]),
		info.Max[record.MID], info.Max[record.Cap]}
	i := sort.Search(len(readings), func(i int) bool { return readings[i].compare(&low) >= 0 })
	return i < len(readings) && readings[i].compare(&high) <= 0
}

// raise notes row i, if its reading is known.
func (n *newestTable) raise(b *record.Batch, i int) {
	at, _ := n.place(&reading{b.CID[i], b.MOID[i], b.MID[i], b.CapNs[i]})
	if n.tags[at] != 0 {
		n.versions[at].acqNs = max(n.versions[at].acqNs, b.AcqNs[i])
	}
}
