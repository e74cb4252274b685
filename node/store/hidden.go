package store

import (
	"cmp"
	"runtime"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
)

// needHidden in a candidate's Need says that an event hides some of the block's rows. It is above
// the bits of the dimensions.
const needHidden = 1 << 7

// acquire takes snapshots of the shards that can hold rows of the box, and chooses what hides rows
// of them. The history is that of the snapshots: between two looks at it that are alike, no purge
// began or ended.
func (sc *scan) acquire() {
	wanted := slots.Parts(&sc.box, len(sc.store.shards)) // nil for all
	for {
		history, puts := sc.store.history.Load(), sc.store.belowAt.Load()
		for id, sh := range slices.Backward(sc.store.shards) {
			if wanted == nil || wanted[id] {
				sc.snapshots = append(sc.snapshots, sh.acquireFor(&sc.box))
			}
		}
		// Of a put below the horizon all shards show the rows, or none.
		if sc.store.history.Load() == history && puts&1 == 0 && sc.store.belowAt.Load() == puts {
			sc.hide(history)
			sc.notePuts()
			return
		}
		for _, now := range sc.snapshots {
			now.release()
		}
		sc.snapshots = sc.snapshots[:0]
		runtime.Gosched() // the committer is in the midst of it
	}
}

// notePuts counts puts below the horizon among what changed the box there.
func (sc *scan) notePuts() {
	for _, now := range sc.snapshots {
		if now.below != nil {
			sc.stats.PurgedAcqNs = now.below.newestPut(&sc.box, sc.stats.PurgedAcqNs)
		}
	}
}

// hide chooses the events that hide rows of the scan: purges, and in views that resolve versions
// the erases from before the moment that is asked for. The oldest comes first.
func (sc *scan) hide(from *history) {
	if from.hiding == nil && from.told == nil {
		return
	}
	b := boundsOf(&sc.box)
	from.hiding.each(&sc.box, &b, func(h *hider) {
		if h.kind != EventErase || sc.view != record.ViewAll && h.acqNs < sc.end {
			sc.hidden = append(sc.hidden, h)
		}
	})
	slices.SortFunc(sc.hidden, func(a, b *hider) int { return cmp.Compare(a.acqNs, b.acqNs) })
	sc.stats.PurgedAcqNs = from.told.newestOf(&sc.box, &b, 0)
}

// hiderOf returns the oldest event that hides a row, nil for none.
func (sc *scan) hiderOf(k record.Key) *hider {
	for _, h := range sc.hidden {
		if h.contains(k) {
			return h
		}
	}
	return nil
}

// reveal removes the rows that an event hides.
func (sc *scan) reveal(b *record.Batch) {
	if len(sc.hidden) > 0 {
		keepRows(b, 0, func(i int) bool { return sc.hiderOf(b.Key(i)) == nil })
	}
}

// hide notes which events hide rows of the segment, drops the candidates of which no row is left,
// and marks those of which some are hidden.
func (seg *segmentScan) hide(by []*hider) {
	for _, h := range by {
		if h.kind != EventErase && !h.hides && seg.isClean(h) {
			continue
		}
		if box, ok := seg.ranked(&h.box); ok {
			seg.hidden = append(seg.hidden, hiddenBox{box, h.kept})
		}
	}
	if len(seg.hidden) == 0 {
		return
	}
	rest := seg.plan.Candidates[:0]
	for _, c := range seg.plan.Candidates {
		all, some := seg.hides(seg.idx.Block(c.Block))
		if all {
			continue
		}
		if some {
			c.Need |= needHidden
		}
		rest = append(rest, c)
	}
	seg.plan.Candidates = rest
}

// ranked returns a box with acq as ranks of the segment; ok is false where the segment has no rows
// in it.
func (seg *sealedSegment) ranked(box *record.Box) (ranked record.Box, ok bool) {
	bounds := seg.idx.Bounds()
	for d := range record.NumDims {
		if !box[d].Meets(bounds[d].Min, bounds[d].Max) {
			return ranked, false
		}
	}
	ranked = *box
	ranked[record.Acq] = appendRanks(nil, seg, box)
	return ranked, len(box[record.Acq]) == 0 || len(ranked[record.Acq]) > 0
}

// hides reports whether events hide all rows of a block, or some.
func (seg *segmentScan) hides(info *index.BlockInfo) (all, some bool) {
	for i := range seg.hidden {
		one, part := seg.hidden[i].covers(info)
		if one {
			return true, true
		}
		some = some || part
	}
	return false, some
}

// hiddenBox is what hides rows of a segment.
type hiddenBox struct {
	box  record.Box // with acq as ranks
	kept slots.Range
}

// covers reports whether all rows of a block, or maybe some, are hidden.
func (h *hiddenBox) covers(info *index.BlockInfo) (all, some bool) {
	all, some = covers(&h.box, info)
	if h.kept.To == 0 || !some {
		return all, some
	}
	cid, least, most := info.Min[record.CID], info.Min[record.MID], info.Max[record.MID]
	if cid != info.Max[record.CID] || least>>slots.BlockBits != most>>slots.BlockBits {
		return false, true
	}
	kept := h.kept.Has(int32(cid), least)
	return all && !kept, !kept
}

// covers reports whether all rows of a block, or maybe some, lie in a box with acq as ranks.
func covers(box *record.Box, info *index.BlockInfo) (all, some bool) {
	all = true
	for d := range record.NumDims {
		if !box[d].Meets(info.Min[d], info.Max[d]) {
			return false, false
		}
		all = all && box[d].Covers(info.Min[d], info.Max[d])
	}
	return all, true
}

// reveal removes from sel, which ascends, the rows of the open block that an event hides.
func (w *worker) reveal(seg *segmentScan, info *index.BlockInfo, sel []uint32) []uint32 {
	for i := range seg.hidden {
		h := &seg.hidden[i]
		box := &h.box
		if _, some := h.covers(info); !some {
			continue
		}
		gone := append(w.gone[:0], sel...)
		for _, d := range filterOrder {
			if len(box[d]) > 0 {
				gone = w.block.Filter(d, box[d], gone)
			}
		}
		if h.kept.To > 0 {
			gone = w.elsewhere(h.kept, gone)
		}
		sel = without(sel, gone)
		w.gone = gone
	}
	return sel
}

// elsewhere keeps of rows of the open block those of devices that do not lie in a range.
func (w *worker) elsewhere(kept slots.Range, sel []uint32) []uint32 {
	w.devs.Reset()
	// Without payloads there is nothing in it that could be damaged.
	_ = w.block.GatherParts(sel, nil, 1<<record.CID|1<<record.MID, &w.devs)
	keep := 0
	for i, at := range sel {
		cid, mid := w.devs.CID[i], w.devs.MID[i]
		if i == 0 || cid != w.devs.CID[i-1] || mid != w.devs.MID[i-1] {
			w.away = !kept.Has(cid, mid)
		}
		if w.away {
			sel[keep] = at
			keep++
		}
	}
	return sel[:keep]
}

// without removes from an ascending list those of another, in place.
func without(sel, gone []uint32) []uint32 {
	if len(gone) == 0 {
		return sel
	}
	keep := 0
	for _, i := range sel {
		if len(gone) > 0 && gone[0] == i {
			gone = gone[1:]
			continue
		}
		sel[keep] = i
		keep++
	}
	return sel[:keep]
}
