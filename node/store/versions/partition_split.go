package versions

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// DivideByZones puts two parts in place of a partition, if there is a cap or a device that parts
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
	d, at, ok := divideZones(zones, bounds.Extent(p.Box[record.MID], record.MID),
		bounds.Extent(p.Box[record.Cap], record.Cap))
	if ok {
		r.divide(p, d, at)
	}
	return ok
}

// division is a value of a dimension at which zones are divided.
type division struct {
	at    int64
	total int // flagged rows of all zones
	below int // of those with values below at
	from  int // of those with values from at on; zones that lie across it are in both
}

// cost is what a division leaves to read, where each row that is in both parts counts thrice.
func (d *division) cost() int { return max(d.below, d.from) + 2*(d.below+d.from-d.total) }

// isWorthIt reports whether a division parts more rows than it leaves in both parts, twice over.
// Others, made again and again, would end in very many parts that each read the same blocks; it is
// better to divide by the readings then.
func (d *division) isWorthIt() bool { return d.cost() < d.total }

// divideZones returns the cap or the device that parts zones best, if one is worth it.
func divideZones(zones []index.FlaggedZone, mid, capNs index.Bound) (record.Dim, int64, bool) {
	byCap := bestDivision(zones, capNs, func(z *index.FlaggedZone) index.Bound { return z.Cap })
	byMID := bestDivision(zones, mid, func(z *index.FlaggedZone) index.Bound { return z.MID })
	if byCap.cost() <= byMID.cost() {
		return record.Cap, byCap.at, byCap.isWorthIt()
	}
	return record.MID, byMID.at, byMID.isWorthIt()
}

// bestDivision returns the value of a dimension at which zones are divided best, at about half of
// their flagged rows; where there is none, it is a division that leaves all in one part.
func bestDivision(
	zones []index.FlaggedZone, within index.Bound, of func(*index.FlaggedZone) index.Bound,
) division {
	slices.SortFunc(zones, func(a, b index.FlaggedZone) int {
		return cmp.Compare(of(&a).Min, of(&b).Min)
	})
	total := 0
	for i := range zones {
		total += zones[i].Flagged
	}
	before, found, at := 0, false, int64(0)
	for i := range zones {
		if v := of(&zones[i]).Min; v > within.Min && (!found || v == at || before < total/2) {
			at, found = v, true
		}
		before += zones[i].Flagged
	}
	if !found || at > within.Max {
		return division{total: total, from: total}
	}
	d := division{at: at, total: total}
	for i := range zones {
		z := of(&zones[i])
		if z.Min < at {
			d.below += zones[i].Flagged
		}
		if z.Max >= at {
			d.from += zones[i].Flagged
		}
	}
	return d
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
