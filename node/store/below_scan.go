package store

import (
	"math"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// eachMainHead calls visit with the heads of rows that came above the horizon, newest first.
func (p *piece) eachMainHead(visit func(*index.Head)) {
	main := p.now
	if main.main != nil {
		main = main.main
	}
	visit(main.head)
	for _, frozen := range slices.Backward(main.frozen) {
		visit(frozen.head)
	}
}

// findBelow adds to the newest of a piece the rows that came below its horizon, and notes their
// readings: what hides them need not be flagged.
//
// Errors: errFull when they are more readings than there is room for.
func (sc *scan) findBelow(p *piece) error {
	p.below = p.below[:0]
	if p.now.below == nil {
		return nil
	}
	take := func(b *record.Batch, _ []uint64) error {
		for i := range b.Len() {
			if sc.hiderOf(b.Key(i)) != nil {
				continue
			}
			if err := p.newest.add(b, i); err != nil {
				return err
			}
		}
		return sc.ctx.Err()
	}
	if err := p.now.below.head.Scan(&p.box, sc.horizon, true, take); err != nil {
		return err
	}
	for _, frozen := range p.now.below.frozen {
		if err := frozen.head.Scan(&p.box, sc.horizon, true, take); err != nil {
			return err
		}
	}
	w := &sc.finder
	w.box = &p.box
	for _, seg := range p.segments {
		if !seg.meta.isAside() {
			continue
		}
		if err := w.findFlagged(p, seg, seg.plan.Candidates); err != nil {
			return err
		}
	}
	for i, tag := range p.newest.tags {
		if tag != 0 {
			p.below = append(p.below, p.newest.versions[i].reading)
		}
	}
	slices.SortFunc(p.below, func(a, b reading) int { return a.compare(&b) })
	return nil
}

// findAbove looks for the newer versions of the readings that findBelow noted.
func (sc *scan) findAbove(p *piece) error {
	if len(p.below) == 0 {
		return nil
	}
	var err error
	p.eachMainHead(func(h *index.Head) {
		if err == nil && h.Rows() > 0 {
			err = sc.lookAbove(p, h)
		}
	})
	for _, seg := range p.segments {
		if err == nil && !seg.meta.isAside() {
			err = sc.lookAboveSealed(p, seg)
		}
	}
	return err
}

func (sc *scan) lookAbove(p *piece, h *index.Head) error {
	take := func(b *record.Batch, _ []uint64) error {
		for i := range b.Len() {
			if k := b.Key(i); p.box.Contains(k) && sc.hiderOf(k) == nil {
				p.newest.raise(b, i)
			}
		}
		return sc.ctx.Err()
	}
	if len(p.below)*headRowsPerPlan > h.Rows() {
		return h.Scan(&p.box, sc.horizon, true, take)
	}
	var l lookup // without a range of acq, and with no end, a head looks the device up
	for i := range p.below {
		l.pointAt(&p.below[i])
		if err := h.Scan(&l.point, math.MaxInt64, true, take); err != nil {
			return err
		}
	}
	return nil
}

// lookAboveSealed reads the blocks of a segment that can hold one of the readings.
func (sc *scan) lookAboveSealed(p *piece, seg *segmentScan) error {
	w := &sc.finder
	w.box = &p.box
	wanted := sc.blocksAbove(p, seg)
	for i, c := range wanted {
		if i%chunkBlocks == 0 {
			if err := sc.ctx.Err(); err != nil {
				return err
			}
			sc.store.fetch(seg.sealedSegment, wanted[i:min(i+chunkBlocks, len(wanted))])
		}
		info, err := w.open(seg, c)
		if err != nil {
			return err
		}
		w.sel = w.choose(seg, info, c.Need)
		w.batch.Reset()
		if err := w.block.Gather(w.sel, true, &w.batch); err != nil {
			return err
		}
		if err := seg.stampRows(w.batch.AcqNs); err != nil {
			return err
		}
		for i := range w.batch.Len() {
			p.newest.raise(&w.batch, i)
		}
	}
	return nil
}

// blocksAbove returns the candidates of a segment that can hold one of the readings: where these
// are few, by planning for each.
func (sc *scan) blocksAbove(p *piece, seg *segmentScan) []index.Candidate {
	planned := map[uint32]bool{}
	few := len(p.below)*blocksPerPlan < len(seg.plan.Candidates)
	if few {
		var l lookup
		l.point[record.Acq] = p.box[record.Acq]
		for i := range p.below {
			l.pointAt(&p.below[i])
			if _, ok := missed(seg.sealedSegment, &l.point); ok {
				continue
			}
			seg.idx.Plan(&l.point, &l.plan)
			for _, c := range l.plan.Candidates {
				planned[c.Block] = true
			}
		}
	}
	var wanted []index.Candidate
	for _, c := range seg.plan.Candidates {
		if few && planned[c.Block] || !few && anyIn(p.below, seg.idx.Block(c.Block)) {
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
func (n *newest) raise(b *record.Batch, i int) {
	at, _ := n.place(&reading{b.CID[i], b.MOID[i], b.MID[i], b.CapNs[i]})
	if n.tags[at] != 0 {
		n.versions[at].acqNs = max(n.versions[at].acqNs, b.AcqNs[i])
	}
}
