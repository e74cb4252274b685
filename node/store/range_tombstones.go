package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// needTombstones is the bit of a candidate's Need which says that a range tombstone may cover some
// rows of the block. It is above the bits of the dimensions.
const needTombstones = 1 << 7

// rangeTombstone is an event as scans and merges see it: it covers the rows of a box, whose acq
// ends at that of the event.
type rangeTombstone struct {
	box         record.Box
	bounds      bounds // of box
	acqNs       int64
	kind        event.Kind
	exceptSlots slots.Range // with To > 0: devices in these slots are not covered

	// hideOnly: the rows are hidden and must not be removed yet.
	hideOnly bool
	release  retention.Release // of a retention: what let go of its rows
}

// contains reports whether the tombstone covers a row.
func (h *rangeTombstone) contains(k record.Key) bool {
	return h.box.Contains(k) && (h.exceptSlots.To == 0 || !h.exceptSlots.Has(k.CID, k.MID))
}

// tombstoneOf returns the tombstone of an event; ok is false if the box lies above the event's acq.
func tombstoneOf(e *event.Event) (h *rangeTombstone, ok bool) {
	h = &rangeTombstone{box: e.Box, acqNs: e.AcqNs, kind: e.Kind, exceptSlots: e.Kept}
	if e.Kind == event.Split {
		h.kind = event.Purge
	}
	below := record.RangeSet{{From: math.MinInt64, To: e.AcqNs}}
	if set := e.Box[record.Acq]; len(set) > 0 {
		below = clipSet(set, e.AcqNs)
	}
	h.box[record.Acq] = below
	h.bounds = boundsOf(&h.box)
	return h, len(below) > 0
}

// tombstoneSet is the immutable set of all range tombstones, oldest first. A change publishes a new
// one.
type tombstoneSet struct {
	tombstones []*rangeTombstone // that may cover rows which are stored
	// removable are those whose rows merges and seals leave out. A held policy has none.
	removable []*rangeTombstone

	ages []retention.AgeRule // the shortest windows first

	// newestPurge is the acq of the newest purge or split, newestRemovable that of the newest of
	// these and of removable; 0: none.
	newestPurge, newestRemovable int64

	// tree finds the tombstones that meet a box. purged is of purges and of what retentions hide;
	// reported also of what retentions hid before an undo: answers from before may differ from
	// those after it.
	tree, purged, reported *tombstoneTree

	events []event.Event // erases, purges and the present steps of retentions
}

// publishTombstones makes what the manifest says of events visible to scans. The caller holds
// manifestMu.
func (s *Store) publishTombstones() {
	next := &tombstoneSet{ages: retention.Ages(s.manifest.policies)}
	var purged, reported []*rangeTombstone
	for _, e := range s.everyEvent() {
		if e.Kind != event.Split {
			next.events = append(next.events, e)
		}
		h, ok := tombstoneOf(&e)
		if !ok {
			continue
		}
		h.hideOnly = e.Kind == event.Retention
		if !e.Done {
			next.tombstones = append(next.tombstones, h)
			if e.Kind.Purges() {
				next.removable = append(next.removable, h)
			}
		}
		if e.Kind.Purges() {
			next.newestPurge = max(next.newestPurge, e.AcqNs)
		}
		if e.Kind == event.Purge || e.Kind == event.Retention {
			purged = append(purged, h)
		}
	}
	reported, next.newestRemovable = slices.Clone(purged), next.newestPurge
	for i := range s.manifest.policies {
		p := &s.manifest.policies[i]
		for _, e := range p.Shown() {
			if h, ok := tombstoneOf(&e); ok {
				reported = append(reported, h)
			}
		}
		if p.Held || s.manifest.steps.Held {
			continue
		}
		p.EachGone(func(e event.Event, r retention.Release) {
			if h, ok := tombstoneOf(&e); ok {
				h.release = r
				next.removable = append(next.removable, h)
			}
		})
	}
	slices.SortStableFunc(next.removable, func(a, b *rangeTombstone) int {
		return cmp.Compare(a.acqNs, b.acqNs)
	})
	for _, h := range next.removable {
		next.newestRemovable = max(next.newestRemovable, h.acqNs)
	}
	next.tree, next.purged = newTombstoneTree(next.tombstones), newTombstoneTree(purged)
	if next.reported = next.purged; len(reported) > len(purged) {
		next.reported = newTombstoneTree(reported)
	}
	s.tombstones.Store(next)
	s.noteReleases()
}

// pickTombstones chooses the tombstones that cover rows of the scan, oldest first: purges, and in
// views that resolve versions the erases from before the time of an as-of query.
func (sc *scan) pickTombstones(from *tombstoneSet) {
	if from.tree == nil && from.reported == nil {
		return
	}
	b := boundsOf(&sc.box)
	from.tree.each(&sc.box, &b, func(h *rangeTombstone) {
		if h.kind != event.Erase || sc.view != record.ViewAll && h.acqNs < sc.end {
			sc.tombstones = append(sc.tombstones, h)
		}
	})
	slices.SortFunc(sc.tombstones, func(a, b *rangeTombstone) int {
		return cmp.Compare(a.acqNs, b.acqNs)
	})
	sc.stats.PurgedAcqNs = from.reported.newestOf(&sc.box, &b, 0)
}

// coveredBy returns the oldest tombstone that covers a row, nil for none.
func (sc *scan) coveredBy(k record.Key) *rangeTombstone {
	for _, h := range sc.tombstones {
		if h.contains(k) {
			return h
		}
	}
	return nil
}

// dropCovered removes the rows of a batch that a tombstone covers.
func (sc *scan) dropCovered(b *record.Batch) {
	if len(sc.tombstones) > 0 {
		keepRows(b, 0, func(i int) bool { return sc.coveredBy(b.Key(i)) == nil })
	}
}

// applyTombstones notes the tombstones that cover rows of the segment, drops the candidates that
// one covers whole, and marks those that some may cover in part.
func (seg *segmentScan) applyTombstones(by []*rangeTombstone) {
	for _, h := range by {
		if h.kind != event.Erase && !h.hideOnly && seg.isClean(h) {
			continue
		}
		if box, ok := seg.ranked(&h.box); ok {
			seg.tombstones = append(seg.tombstones, rankedTombstone{box, h.exceptSlots})
		}
	}
	if len(seg.tombstones) == 0 {
		return
	}
	rest := seg.plan.Candidates[:0]
	for _, c := range seg.plan.Candidates {
		all, some := seg.covers(seg.idx.Block(c.Block))
		if all {
			continue
		}
		if some {
			c.Need |= needTombstones
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

// covers reports whether a tombstone covers all rows of a block, or some may cover a few.
func (seg *segmentScan) covers(info *index.BlockInfo) (all, some bool) {
	for i := range seg.tombstones {
		one, part := seg.tombstones[i].covers(info)
		if one {
			return true, true
		}
		some = some || part
	}
	return false, some
}

// rankedTombstone is a range tombstone in terms of one segment.
type rankedTombstone struct {
	box         record.Box // with acq as ranks
	exceptSlots slots.Range
}

// covers reports whether all rows of a block, or maybe some, are covered.
func (h *rankedTombstone) covers(info *index.BlockInfo) (all, some bool) {
	all, some = covers(&h.box, info)
	if h.exceptSlots.To == 0 || !some {
		return all, some
	}
	cid, least, most := info.Min[record.CID], info.Min[record.MID], info.Max[record.MID]
	if cid != info.Max[record.CID] || least>>slots.BlockBits != most>>slots.BlockBits {
		return false, true
	}
	except := h.exceptSlots.Has(int32(cid), least)
	return all && !except, !except
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

// dropCovered removes from sel, which ascends, the rows of the open block that a tombstone covers.
func (w *worker) dropCovered(seg *segmentScan, info *index.BlockInfo, sel []uint32) []uint32 {
	for i := range seg.tombstones {
		h := &seg.tombstones[i]
		box := &h.box
		if _, some := h.covers(info); !some {
			continue
		}
		covered := append(w.covered[:0], sel...)
		for _, d := range filterOrder {
			if len(box[d]) > 0 {
				covered = w.block.Filter(d, box[d], covered)
			}
		}
		if h.exceptSlots.To > 0 {
			covered = w.outsideSlots(h.exceptSlots, covered)
		}
		sel = subtract(sel, covered)
		w.covered = covered
	}
	return sel
}

// outsideSlots keeps the rows of the open block whose devices are outside a range of slots.
func (w *worker) outsideSlots(inside slots.Range, sel []uint32) []uint32 {
	w.devs.Reset()
	// Keys have no chunks: without payloads it cannot fail.
	_ = w.block.GatherColumns(sel, nil, 1<<record.CID|1<<record.MID, &w.devs)
	keep := 0
	for i, at := range sel {
		cid, mid := w.devs.CID[i], w.devs.MID[i]
		if i == 0 || cid != w.devs.CID[i-1] || mid != w.devs.MID[i-1] {
			w.outside = !inside.Has(cid, mid)
		}
		if w.outside {
			sel[keep] = at
			keep++
		}
	}
	return sel[:keep]
}

// subtract removes from an ascending list the elements of another one, in place.
func subtract(sel, other []uint32) []uint32 {
	if len(other) == 0 {
		return sel
	}
	keep := 0
	for _, i := range sel {
		if len(other) > 0 && other[0] == i {
			other = other[1:]
			continue
		}
		sel[keep] = i
		keep++
	}
	return sel[:keep]
}
