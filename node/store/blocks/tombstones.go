package blocks

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// ResidualTombstones is the bit of a candidate's Residual which says that a range tombstone may
// cover some rows of the block. It is above the bits of the dimensions.
const ResidualTombstones = 1 << 7

// applyTombstones notes the tombstones that cover rows of the segment, drops the candidates that
// one covers whole, and marks those that some may cover in part.
func (seg *PlannedSegment) applyTombstones(by []*tombstone.Range) {
	for _, t := range by {
		if t.Kind != event.Erase && !t.HideOnly && seg.HasNoneOf(t) {
			continue
		}
		if box, ok := seg.BoxInRanks(&t.Box); ok {
			seg.tombstones = append(seg.tombstones, rankedTombstone{box, t.KeptSlots})
		}
	}
	if len(seg.tombstones) == 0 {
		return
	}
	rest := seg.Plan.Candidates[:0]
	for _, c := range seg.Plan.Candidates {
		all, some := seg.covers(seg.Index.Block(c.Block))
		if all {
			continue
		}
		if some {
			c.Residual |= ResidualTombstones
		}
		rest = append(rest, c)
	}
	seg.Plan.Candidates = rest
}

// covers reports whether a tombstone covers all rows of a block, or some may cover a few.
func (seg *PlannedSegment) covers(info *index.BlockInfo) (all, some bool) {
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
	box       record.Box // with acq as ranks
	keptSlots slots.Range
}

// covers reports whether all rows of a block, or maybe some, are covered.
func (t *rankedTombstone) covers(info *index.BlockInfo) (all, some bool) {
	all, some = Covers(&t.box, info)
	if t.keptSlots.To == 0 || !some {
		return all, some
	}
	cid, least, most := info.Min[record.CID], info.Min[record.MID], info.Max[record.MID]
	if cid != info.Max[record.CID] || least>>slots.DeviceRangeBits != most>>slots.DeviceRangeBits {
		return false, true
	}
	except := t.keptSlots.Has(int32(cid), least)
	return all && !except, !except
}

// Covers reports whether all rows of a block, or maybe some, lie in a box with acq as ranks.
func Covers(box *record.Box, info *index.BlockInfo) (all, some bool) {
	all = true
	for d := range record.NumDims {
		if !box[d].Intersects(info.Min[d], info.Max[d]) {
			return false, false
		}
		all = all && box[d].Covers(info.Min[d], info.Max[d])
	}
	return all, true
}

// dropCovered removes from sel, which ascends, the rows of the open block that a tombstone covers.
func (r *Reader) dropCovered(seg *PlannedSegment, info *index.BlockInfo, sel []uint32) []uint32 {
	for i := range seg.tombstones {
		t := &seg.tombstones[i]
		box := &t.box
		if _, some := t.covers(info); !some {
			continue
		}
		covered := append(r.covered[:0], sel...)
		for _, d := range filterOrder {
			if len(box[d]) > 0 {
				covered = r.Block.Filter(d, box[d], covered)
			}
		}
		if t.keptSlots.To > 0 {
			covered = r.OutsideSlots(t.keptSlots, covered)
		}
		sel = subtract(sel, covered)
		r.covered = covered
	}
	return sel
}

// OutsideSlots keeps the rows of the open block whose devices are outside a range of slots.
func (r *Reader) OutsideSlots(inside slots.Range, sel []uint32) []uint32 {
	r.coveredDevices.Reset()
	// Keys have no chunks: without payloads it cannot fail.
	_ = r.Block.GatherColumns(sel, nil, 1<<record.CID|1<<record.MID, &r.coveredDevices)
	keep := 0
	for i, at := range sel {
		cid, mid := r.coveredDevices.CID[i], r.coveredDevices.MID[i]
		if i == 0 || cid != r.coveredDevices.CID[i-1] || mid != r.coveredDevices.MID[i-1] {
			r.outsideSlots = !inside.Has(cid, mid)
		}
		if r.outsideSlots {
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
