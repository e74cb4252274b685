package versions

import (
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// findInHeads makes the heads find which of their own rows are superseded, and adds the rows that
// may supersede sealed ones to the newest. Where what heads know is not used, it adds all versions.
func (r *Resolver) findInHeads(p *Partition) error {
	flagged := 0
	p.eachOwnHead(func(h *index.Head) { flagged += h.Flagged() })
	if p.headsKnowSuperseded = r.usesSupersededOfHeads(p); flagged == 0 {
		return nil
	}
	add := func(b *record.Batch) error {
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
	box := p.Box
	if p.headsKnowSuperseded {
		for heads := range p.State.HeadsByShard {
			for i, h := range heads {
				h.FindSuperseded(&box, heads[i+1:])
			}
		}
		if p.newestFromNs >= r.UpperAcqNs {
			return nil
		}
		box[record.Acq] = record.RangeSet{{From: p.newestFromNs, To: r.UpperAcqNs}}
	}
	var err error
	p.eachOwnHead(func(h *index.Head) {
		scan := h.ScanVersions
		if p.headsKnowSuperseded {
			scan = h.ScanSuperseding
		}
		if err == nil {
			err = scan(&box, r.Horizon, add)
		}
	})
	return err
}

// usesSupersededOfHeads reports whether what heads know of their superseded rows is used: unless a
// row may hide others of its reading that came below the horizon, or a tombstone covers a row of
// the heads and not the older versions of its reading, which are shown again then.
func (r *Resolver) usesSupersededOfHeads(p *Partition) bool {
	if !r.UseSuperseded || p.State.Backdated != nil {
		return false
	}
	fromNs := record.Acq.Max()
	p.State.EachHead(func(h *index.Head) { fromNs = min(fromNs, h.OldestAcq()) })
	return !slices.ContainsFunc(r.Tombstones, func(t *tombstone.Range) bool {
		acqs := t.Box[record.Acq]
		return acqs[len(acqs)-1].To > fromNs && (len(acqs) > 1 || acqs[0].From > fromNs)
	})
}
