package versions

import (
	"math"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// findBackdated adds to the newest of a partition the rows that came below its horizon, and notes
// their readings: what hides them need not be flagged.
//
// Errors: ErrFull when they are more readings than there is space for.
func (r *Resolver) findBackdated(p *Partition) error {
	p.backdated = p.backdated[:0]
	if p.State.Backdated == nil {
		return nil
	}
	take := func(b *record.Batch, _ []uint64) error {
		for i := range b.Len() {
			if r.CoveredBy(b.Key(i)) != nil {
				continue
			}
			if err := p.Newest.Add(b, i); err != nil {
				return err
			}
		}
		return r.Ctx.Err()
	}
	var err error
	p.State.Backdated.EachHead(func(h *index.Head) {
		if err == nil {
			err = h.Scan(&p.Box, r.Horizon, true, take)
		}
	})
	if err != nil {
		return err
	}
	for _, seg := range p.Segments {
		if !seg.Meta.IsBackdated() {
			continue
		}
		if err := r.findFlagged(p, seg, seg.Plan.Candidates); err != nil {
			return err
		}
	}
	for reading := range p.Newest.All {
		p.backdated = append(p.backdated, *reading)
	}
	slices.SortFunc(p.backdated, func(a, b Reading) int { return a.Compare(&b) })
	return nil
}

// findNewerThanBackdated looks for the newer versions of the readings that findBackdated noted.
func (r *Resolver) findNewerThanBackdated(p *Partition) error {
	if len(p.backdated) == 0 {
		return nil
	}
	var err error
	p.eachOwnHead(func(h *index.Head) {
		if err == nil && h.Rows() > 0 {
			err = r.findNewerInHead(p, h)
		}
	})
	for _, seg := range p.Segments {
		if err == nil && !seg.Meta.IsBackdated() {
			err = r.findNewerInSegment(p, seg)
		}
	}
	return err
}

func (r *Resolver) findNewerInHead(p *Partition, h *index.Head) error {
	take := func(b *record.Batch, _ []uint64) error {
		for i := range b.Len() {
			if k := b.Key(i); p.Box.Contains(k) && r.CoveredBy(k) == nil {
				p.Newest.raise(b, i)
			}
		}
		return r.Ctx.Err()
	}
	if len(p.backdated)*HeadRowsPerPlan > h.Rows() {
		return h.Scan(&p.Box, r.Horizon, true, take)
	}
	var at Point // without a range of acq, and with no end, a head looks the device up
	for i := range p.backdated {
		at.MoveTo(&p.backdated[i])
		if err := h.Scan(&at.Box, math.MaxInt64, true, take); err != nil {
			return err
		}
	}
	return nil
}

// findNewerInSegment reads the blocks of a segment that can hold one of the readings.
func (r *Resolver) findNewerInSegment(p *Partition, seg *blocks.PlannedSegment) error {
	g := &r.VersionLookup
	g.Box = &p.Box
	wanted := r.blocksWithNewer(p, seg)
	for c := range r.Access.Readahead.Each(seg.Segment, wanted) {
		if err := r.Ctx.Err(); err != nil {
			return err
		}
		if err := g.Keys(seg, c, &g.Batch); err != nil {
			return err
		}
		for i := range g.Batch.Len() {
			p.Newest.raise(&g.Batch, i)
		}
	}
	return nil
}

// blocksWithNewer returns the candidates of a segment that can hold one of the readings: where
// these are few, by planning for each.
func (r *Resolver) blocksWithNewer(p *Partition, seg *blocks.PlannedSegment) []index.Candidate {
	planned := map[uint32]bool{}
	few := len(p.backdated)*BlocksPerPlan < len(seg.Plan.Candidates)
	if few {
		var at Point
		var plan index.Plan
		at.Box[record.Acq] = p.Box[record.Acq]
		for i := range p.backdated {
			at.MoveTo(&p.backdated[i])
			if _, ok := shards.PrunedBy(seg.Segment, &at.Box); ok {
				continue
			}
			seg.Index.Plan(&at.Box, &plan)
			for _, c := range plan.Candidates {
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
func anyIn(readings []Reading, info *index.BlockInfo) bool {
	low := LowestIn(info)
	high := Reading{int32(info.Max[record.CID]), int32(info.Max[record.MOID]),
		info.Max[record.MID], info.Max[record.Cap]}
	i := sort.Search(len(readings), func(i int) bool { return readings[i].Compare(&low) >= 0 })
	return i < len(readings) && readings[i].Compare(&high) <= 0
}

// raise notes row i, if its reading is known.
func (n *Table) raise(b *record.Batch, i int) {
	at, _ := n.probe(&Reading{b.CID[i], b.MOID[i], b.MID[i], b.CapNs[i]})
	if n.tags[at] != 0 {
		n.versions[at].acqNs = max(n.versions[at].acqNs, b.AcqNs[i])
	}
}

const (
	// BlocksPerPlan is how many blocks of a segment can be held against the readings in the time
	// that the index takes to plan for one reading.
	BlocksPerPlan = 16
	// HeadRowsPerPlan is the same for the rows of a head.
	HeadRowsPerPlan = 64
)

// Point is a box that holds one reading.
type Point struct {
	Box    record.Box
	ranges [record.NumDims]record.Range
}

// MoveTo makes the box hold one reading.
func (p *Point) MoveTo(r *Reading) {
	for d, v := range [record.NumDims - 1]int64{int64(r.CID), r.MID, int64(r.MOID), r.CapNs} {
		p.ranges[d] = record.At(v)
		p.Box[d] = p.ranges[d : d+1]
	}
}

// LowestIn returns the reading below which no reading of a block is.
func LowestIn(info *index.BlockInfo) Reading {
	return Reading{int32(info.Min[record.CID]), int32(info.Min[record.MOID]),
		info.Min[record.MID], info.Min[record.Cap]}
}
