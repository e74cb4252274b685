package store

import (
	"github.com/pentad-db/pentad/index"
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
	w := &sc.finder
	w.box = &p.box
	for _, seg := range p.segments {
		if seg.Meta.IsBackdated() {
			continue
		}
		w.flagged = w.flagged[:0]
		for _, c := range seg.plan.Candidates {
			if seg.Index.Block(c.Block).Flagged > 0 {
				w.flagged = append(w.flagged, c)
			}
		}
		if err == nil {
			err = w.findFlagged(p, seg, w.flagged)
		}
	}
	return err
}

// shows reports whether a row, the newest version of its reading, is one that the query asked for.
func (sc *scan) shows(k record.Key) bool { return sc.winners.Contains(k.AcqNs) }

// resolve removes from the batch the rows at or after start that a newer version hides, or that
// the query did not ask for, such as tombstones.
func (w *worker) resolve(p *partition, b *record.Batch, start int) {
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
				w.superseded++
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
