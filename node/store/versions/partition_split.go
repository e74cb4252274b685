package versions

import (
	"cmp"
	"math"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// DivideByZones puts two halves in place of a partition, if there is a cap or a device that parts
// the flagged rows of its blocks and heads.
func (r *Resolver) DivideByZones(p *Partition) bool {
	var zones []index.FlaggedZone
	for _, seg := range p.Segments {
		for _, c := range seg.Plan.Candidates {
			if b := seg.Index.Block(c.Block); b.Flagged > 0 {
				zones = append(zones, index.FlaggedZone{Flagged: int(b.Flagged),
					MID: index.Bound{Min: b.Min[record.MID], Max: b.Max[record.MID]},
					Cap: index.Bound{Min: b.Min[record.Cap], Max: b.Max[record.Cap]}})
			}
		}
	}
	p.eachHeadZone(func(z index.FlaggedZone) { zones = append(zones, z) })
	byCap, capLeft := bestDivision(zones, p.Flagged, bounds.Extent(p.Box[record.Cap], record.Cap),
		func(z *index.FlaggedZone) index.Bound { return z.Cap })
	byMID, midLeft := bestDivision(zones, p.Flagged, bounds.Extent(p.Box[record.MID], record.MID),
		func(z *index.FlaggedZone) index.Bound { return z.MID })
	switch {
	case min(capLeft, midLeft) >= p.Flagged:
		return false
	case capLeft <= midLeft:
		r.divide(p, record.Cap, byCap)
	default:
		r.divide(p, record.MID, byMID)
	}
	return true
}

// bestDivision returns the value of a dimension at which zones are divided best, at about half of
// their flagged rows, and how many of these the larger part still has.
func bestDivision(
	zones []index.FlaggedZone, total int, within index.Bound,
	of func(*index.FlaggedZone) index.Bound,
) (at int64, left int) {
	slices.SortFunc(zones, func(a, b index.FlaggedZone) int {
		return cmp.Compare(of(&a).Min, of(&b).Min)
	})
	before, found := 0, false
	for i := range zones {
		if v := of(&zones[i]).Min; v > within.Min && (!found || v == at || before < total/2) {
			at, found = v, true
		}
		before += zones[i].Flagged
	}
	if !found || at > within.Max {
		return 0, math.MaxInt
	}
	below, above := 0, 0
	for i := range zones {
		z := of(&zones[i])
		if z.Min < at {
			below += zones[i].Flagged
		}
		if z.Max >= at {
			above += zones[i].Flagged
		}
	}
	return at, max(below, above)
}

// DivideByReadings divides a partition whose blocks could not be parted in the middle of the
// readings that filled its memory. They differ, so there is a dimension in which they do.
func (r *Resolver) DivideByReadings(p *Partition) {
	for _, d := range []record.Dim{record.Cap, record.MID, record.MOID, record.CID} {
		if at, ok := p.Newest.middle(d); ok {
			r.divide(p, d, at)
			return
		}
	}
	panic("BUG: one reading is more than a scan has space for")
}

// divide replaces a partition by its parts from a value on and below it; the former comes first.
func (r *Resolver) divide(p *Partition, d record.Dim, at int64) {
	below, from := NewPartition(p.State), NewPartition(p.State)
	below.Box, from.Box = bounds.Cut(&p.Box, d, at)
	p.GiveBack()
	r.Waiting = append(r.Waiting, below, from)
}
