package versions

import (
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// FindNewest collects the flagged rows that lie in the box of a partition.
//
// Errors: ErrFull when they are more readings than there is space for.
func (r *Resolver) FindNewest(p *Partition, limit int) error {
	if p.Flagged == 0 {
		return nil
	}
	p.Newest = NewTable(limit)
	err := r.findBackdated(p)
	if err == nil {
		err = r.findInHeads(p)
	}
	for _, seg := range p.Segments {
		if seg.Meta.IsBackdated() {
			continue
		}
		r.flagged = r.flagged[:0]
		for _, c := range seg.Plan.Candidates {
			info := seg.Index.Block(c.Block)
			if info.Flagged > 0 && p.mayHaveNewer(seg, info) {
				r.flagged = append(r.flagged, c)
			}
		}
		if err == nil {
			err = r.findFlagged(p, seg, r.flagged)
		}
	}
	return err
}

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
	heads, box := p.ownHeads(), p.Box
	if p.headsKnowSuperseded {
		for i, h := range heads {
			h.FindSuperseded(&box, heads[i+1:])
		}
		if p.fromNs >= r.UpperAcqNs {
			return nil
		}
		box[record.Acq] = record.RangeSet{{From: p.fromNs, To: r.UpperAcqNs}}
	}
	for _, h := range heads {
		scan := h.ScanVersions
		if p.headsKnowSuperseded {
			scan = h.ScanSuperseding
		}
		if err := scan(&box, r.Horizon, add); err != nil {
			return err
		}
	}
	return nil
}

// usesSupersededOfHeads reports whether what heads know of their superseded rows is used: unless a
// row may hide others of its reading that came below the horizon, or a tombstone covers a row of
// the heads and not the older versions of its reading, which are shown again then.
func (r *Resolver) usesSupersededOfHeads(p *Partition) bool {
	if !r.UseSuperseded || p.State.Backdated != nil {
		return false
	}
	oldest := p.State.Head
	if len(p.State.Immutable) > 0 {
		oldest = p.State.Immutable[0].Head
	}
	fromNs := oldest.OldestAcq()
	return !slices.ContainsFunc(r.Tombstones, func(t *tombstone.Range) bool {
		acqs := t.Box[record.Acq]
		return acqs[len(acqs)-1].To > fromNs && (len(acqs) > 1 || acqs[0].From > fromNs)
	})
}

// findFlagged adds the flagged rows of candidates that lie in the box of a partition to its newest.
//
// Errors: ErrFull when they are more readings than there is space for.
func (r *Resolver) findFlagged(
	p *Partition, seg *blocks.PlannedSegment, candidates []index.Candidate,
) error {
	g := &r.VersionLookup
	g.Box = &p.Box
	for len(candidates) > 0 {
		if err := r.Ctx.Err(); err != nil {
			return err
		}
		n, selective := 1, g.IsSelective(seg, candidates[0])
		for n < min(len(candidates), blocks.TaskBlocks) &&
			g.IsSelective(seg, candidates[n]) == selective {
			n++
		}
		r.Readahead.Prefetch(seg.Segment, candidates[:n])
		all, stay := r.OpenBlocks.Slots(n)
		if err := g.OpenAll(seg, candidates[:n], all, selective); err != nil {
			return err
		}
		for _, open := range all {
			if err := r.addFlagged(p, seg, open); err != nil {
				return err
			}
		}
		if stay {
			seg.Open = append(seg.Open, all...)
		}
		candidates = candidates[n:]
	}
	return nil
}

// addFlagged adds the flagged ones of the rows that were found to the newest of a partition.
func (r *Resolver) addFlagged(
	p *Partition, seg *blocks.PlannedSegment, open *blocks.OpenBlock,
) error {
	g := &r.VersionLookup
	if open.InSpans {
		g.Chosen = open.Block.FlaggedSpans(open.Spans, g.Chosen[:0])
	} else {
		g.Chosen = open.Block.Flagged(append(g.Chosen[:0], open.Sel...))
	}
	g.Batch.Reset()
	if err := open.Block.Gather(g.Chosen, true, &g.Batch); err != nil {
		return err
	}
	if err := seg.RanksToAcqs(g.Batch.AcqNs); err != nil {
		return err
	}
	for i := range g.Batch.Len() {
		if g.Batch.AcqNs[i] < p.fromNs {
			continue
		}
		if err := p.Newest.Add(&g.Batch, i); err != nil {
			return err
		}
	}
	return nil
}
