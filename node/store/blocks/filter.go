package blocks

import (
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// filterOrder is the order in which dimensions are tested: those that vary most in a block, and
// so drop most rows, first.
var filterOrder = [record.NumDims]record.Dim{
	record.MID, record.Cap, record.Acq, record.MOID, record.CID,
}

// Choose returns the positions of the rows of the open block that lie in the box and are not
// hidden, in ascending order.
func (r *Reader) Choose(seg *PlannedSegment, info *index.BlockInfo, residual uint8) []uint32 {
	sel := r.Chosen[:0]
	if residual == 0 {
		return r.filterSpan(seg, 0, 0, r.Block.Rows(), sel)
	}
	r.findDevices(info, residual)
	lo := 0
	for i := range info.Subs {
		sub := &info.Subs[i]
		hi := int(sub.End)
		if lo == hi { // a block has up to eight
			continue
		}
		if ofSubRun, some := r.residualOf(seg, sub, residual); some {
			sel = r.filterSubRun(seg, ofSubRun, lo, hi, sel)
		}
		lo = hi
	}
	if residual&ResidualTombstones != 0 {
		return r.dropCovered(seg, info, sel)
	}
	return sel
}

// count returns how many rows Choose would return, where none can be hidden.
func (r *Reader) count(seg *PlannedSegment, info *index.BlockInfo, residual uint8) (rows int) {
	r.findDevices(info, residual)
	lo := 0
	for i := range info.Subs {
		sub := &info.Subs[i]
		hi := int(sub.End)
		if lo == hi {
			continue
		}
		switch ofSubRun, some := r.residualOf(seg, sub, residual); {
		case !some:
		case r.searched:
			for _, m := range r.devices {
				from, to := r.Block.SearchMIDs(lo, hi, m)
				rows += r.countSpan(seg, ofSubRun&^(1<<record.MID), from, max(from, to))
			}
		default:
			rows += r.countSpan(seg, ofSubRun, lo, hi)
		}
		lo = hi
	}
	return rows
}

// countSpan returns how many positions filterSpan would append.
func (r *Reader) countSpan(seg *PlannedSegment, residual uint8, lo, hi int) int {
	switch residual {
	case 0:
		return hi - lo
	case 1 << record.Cap:
		return r.Block.CountSpan(record.Cap, r.Box[record.Cap], lo, hi)
	default:
		r.Chosen = r.filterSpan(seg, residual, lo, hi, r.Chosen[:0])
		return len(r.Chosen)
	}
}

// residualOf returns which of the residual dimensions have to be tested on the rows of a sub-run:
// its own zones may lie inside the box, or outside.
func (r *Reader) residualOf(
	seg *PlannedSegment, sub *index.SubRun, residual uint8,
) (ofSubRun uint8, some bool) {
	if residual>>record.Cap&1 != 0 {
		caps := r.Box[record.Cap]
		if !caps.Intersects(sub.CapLo, sub.CapHi) {
			return 0, false
		}
		if caps.Covers(sub.CapLo, sub.CapHi) {
			residual &^= 1 << record.Cap
		}
	}
	if residual>>record.Acq&1 != 0 {
		rankLo, rankHi := int64(sub.RankLo), int64(sub.RankHi)
		if !seg.Ranks.Intersects(rankLo, rankHi) {
			return 0, false
		}
		if seg.Ranks.Covers(rankLo, rankHi) {
			residual &^= 1 << record.Acq
		}
	}
	return residual, true
}

// findDevices translates the devices of the box for the open block, where its sub-runs are sorted
// by device.
func (r *Reader) findDevices(info *index.BlockInfo, residual uint8) {
	r.devices = r.devices[:0]
	if r.searched = residual>>record.MID&1 == 1 && SortedByDevice(info); r.searched {
		r.devices = r.devicesOf(r.Block, info, r.devices)
	}
}

// SortedByDevice reports whether the sub-runs of a block are: when tenant and quantity are
// constant.
func SortedByDevice(info *index.BlockInfo) bool {
	return info.Min[record.CID] == info.Max[record.CID] &&
		info.Min[record.MOID] == info.Max[record.MOID]
}

// devicesOf appends the devices of the box as a block stores them.
func (r *Reader) devicesOf(
	b *segment.Block, info *index.BlockInfo, dst []segment.MIDs,
) []segment.MIDs {
	for _, of := range r.Box[record.MID].Near(info.Min[record.MID], info.Max[record.MID]) {
		dst = append(dst, b.FindMIDs(of.From, of.To, info.Max[record.MID]))
	}
	return dst
}

// filterSubRun appends the positions of the matching rows of a sub-run.
func (r *Reader) filterSubRun(
	seg *PlannedSegment, residual uint8, lo, hi int, sel []uint32,
) []uint32 {
	if !r.searched {
		return r.filterSpan(seg, residual, lo, hi, sel)
	}
	for _, m := range r.devices {
		if from, to := r.Block.SearchMIDs(lo, hi, m); from < to {
			sel = r.filterSpan(seg, residual&^(1<<record.MID), from, to, sel)
		}
	}
	return sel
}

// filterSpan tests the residual dimensions on the rows [lo, hi).
func (r *Reader) filterSpan(
	seg *PlannedSegment, residual uint8, lo, hi int, sel []uint32,
) []uint32 {
	start, first := len(sel), true
	for _, d := range filterOrder {
		if residual>>d&1 == 0 {
			continue
		}
		set := r.Box[d]
		if d == record.Acq {
			set = seg.Ranks
		}
		if first {
			sel, first = r.Block.FilterSpan(d, set, lo, hi, sel), false
		} else {
			sel = sel[:start+len(r.Block.Filter(d, set, sel[start:]))]
		}
		if len(sel) == start {
			return sel
		}
	}
	if first {
		sel = slices.Grow(sel, hi-lo)[:start+hi-lo]
		for i, all := 0, sel[start:]; i < len(all); i++ {
			all[i] = uint32(lo + i)
		}
	}
	return sel
}
