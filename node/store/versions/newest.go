package versions

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/blocks"
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
		p.eachFlagged(seg, func(c index.Candidate, _ *index.BlockInfo) {
			r.flagged = append(r.flagged, c)
		})
		if err == nil {
			err = r.findFlagged(p, seg, r.flagged)
		}
	}
	return err
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
		r.Access.Readahead.Prefetch(seg.Segment, candidates[:n])
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
		if g.Batch.AcqNs[i] < p.newestFromNs {
			continue
		}
		if err := p.Newest.Add(&g.Batch, i); err != nil {
			return err
		}
	}
	return nil
}
