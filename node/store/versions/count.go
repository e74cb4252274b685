package versions

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// CountsHead reports whether CountHead can count the rows of a head that are shown.
func (r *Resolver) CountsHead(p *Partition, h *index.Head) bool {
	switch {
	case p.headsKnowSuperseded:
		return true
	case r.DropTombstones && h.HasTombs():
		return false
	case r.View == record.ViewAll:
		return true
	}
	return len(r.NewestAcqs) == 0 && !h.HasTombs() && p.Newest.len() <= maxZoneTests
}

// CountHead returns how many rows of a head lie in the box of a partition, without those that have
// a newer version: these are looked up.
func (r *Resolver) CountHead(p *Partition, h *index.Head) (uint64, error) {
	if p.headsKnowSuperseded {
		box := p.Box
		box[record.Acq] = nil
		return uint64(h.CountLatest(&box, r.UpperAcqNs)), nil
	}
	rows := uint64(h.Count(&p.Box, r.Horizon))
	if r.View == record.ViewAll || p.Newest.len() == 0 {
		return rows, nil
	}
	var at Point
	at.Box[record.Acq] = p.Box[record.Acq]
	for reading := range p.Newest.All {
		if !inBox(&p.Box, reading) {
			continue
		}
		at.MoveTo(reading)
		err := h.Scan(&at.Box, r.Horizon, true, func(b *record.Batch, _ []uint64) error {
			for i := range b.Len() {
				if p.Newest.Supersedes(b.Key(i)) {
					rows--
				}
			}
			return r.Ctx.Err()
		})
		if err != nil {
			return 0, err
		}
	}
	return rows, nil
}

func inBox(box *record.Box, r *Reading) bool {
	return box[record.CID].Contains(int64(r.CID)) && box[record.MID].Contains(r.MID) &&
		box[record.MOID].Contains(int64(r.MOID)) && box[record.Cap].Contains(r.CapNs)
}
