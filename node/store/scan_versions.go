package store

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/sdk/record"
)

// findNewest collects the flagged rows that lie in the box of a partition.
//
// Errors: errFull when they are more readings than there is room for.
func (sc *scan) findNewest(p *partition, room int) error {
	if p.flagged == 0 {
		return nil
	}
	p.newest = newNewestTable(room)
	err := sc.findBackdated(p)
	p.eachMainHead(func(h *index.Head) {
		if err != nil || h.Flagged() == 0 {
			return
		}
		err = h.ScanVersions(&p.box, sc.horizon, func(b *record.Batch) error {
			for i := range b.Len() {
				if sc.coveredBy(b.Key(i)) != nil {
					continue
				}
				if err := p.newest.add(b, i); err != nil {
					return err
				}
			}
			return sc.ctx.Err()
		})
	})
	for _, seg := range p.segments {
		if seg.Meta.IsBackdated() {
			continue
		}
		sc.flagged = sc.flagged[:0]
		for _, c := range seg.Plan.Candidates {
			if seg.Index.Block(c.Block).Flagged > 0 {
				sc.flagged = append(sc.flagged, c)
			}
		}
		if err == nil {
			err = sc.findFlagged(p, seg, sc.flagged)
		}
	}
	return err
}

// shows reports whether a row, the newest version of its reading, is one that the query asked for.
func (sc *scan) shows(k record.Key) bool { return sc.winners.Contains(k.AcqNs) }

// Resolve removes from the batch the rows at or after start that a newer version hides, or that
// the query did not ask for, such as tombstones.
func (w *worker) Resolve(b *record.Batch, start int) {
	p := w.partition
	if w.scan.view == record.ViewAll {
		if w.scan.noTombs && len(b.Tombs) > 0 {
			keepRows(b, start, func(i int) bool { return !b.Tomb(i) })
		}
		return
	}
	keep, suspect := start, p.newest.suspect(b, start)
	plain := len(b.Tombs) == 0 && len(w.scan.winners) == 0
	if plain {
		keep = suspect
	}
	for i := keep; i < b.Len(); i++ {
		if i == suspect {
			suspect = p.newest.suspect(b, i+1)
			if p.newest.supersedes(b.Key(i)) {
				w.Superseded++
				continue
			}
		}
		if !plain && (b.Tomb(i) || !w.scan.shows(b.Key(i))) {
			continue
		}
		if keep != i {
			b.Move(keep, i)
		}
		keep++
	}
	b.Truncate(keep)
}

// keepRows removes the rows at or after start that are not to stay.
func keepRows(b *record.Batch, start int, stays func(i int) bool) {
	keep := start
	for i := start; i < b.Len(); i++ {
		if !stays(i) {
			continue
		}
		if keep != i {
			b.Move(keep, i)
		}
		keep++
	}
	b.Truncate(keep)
}

// findFlagged adds the flagged rows of candidates that lie in the box of a partition to its newest.
//
// Errors: errFull when they are more readings than there is room for.
func (sc *scan) findFlagged(
	p *partition, seg *blocks.Planned, candidates []index.Candidate,
) error {
	w := &sc.finder
	w.Box = &p.box
	for len(candidates) > 0 {
		if err := sc.ctx.Err(); err != nil {
			return err
		}
		n, hold := 1, w.IsBatchable(seg, candidates[0])
		for n < min(len(candidates), blocks.TaskBlocks) &&
			w.IsBatchable(seg, candidates[n]) == hold {
			n++
		}
		sc.store.ahead.Ask(seg.Segment, candidates[:n])
		all, stay := sc.cache.Slots(n)
		if err := w.OpenCached(seg, candidates[:n], all, hold); err != nil {
			return err
		}
		for _, f := range all {
			if err := sc.addFlagged(p, seg, f); err != nil {
				return err
			}
		}
		if stay {
			seg.Cached = append(seg.Cached, all...)
		}
		candidates = candidates[n:]
	}
	return nil
}

// addFlagged adds the flagged ones of the rows that were found to the newest of a partition.
func (sc *scan) addFlagged(p *partition, seg *blocks.Planned, f *blocks.Cached) error {
	w := &sc.finder
	if f.InSpans {
		w.Chosen = f.Block.FlaggedSpans(f.Spans, w.Chosen[:0])
	} else {
		w.Chosen = f.Block.Flagged(append(w.Chosen[:0], f.Sel...))
	}
	w.Batch.Reset()
	if err := f.Block.Gather(w.Chosen, true, &w.Batch); err != nil {
		return err
	}
	if err := seg.StampRows(w.Batch.AcqNs); err != nil {
		return err
	}
	for i := range w.Batch.Len() {
		if err := p.newest.add(&w.Batch, i); err != nil {
			return err
		}
	}
	return nil
}
