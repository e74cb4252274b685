package store

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// A block is mostly waited for: its front, and then the column that is tested first, lie in memory
// that the processor's caches have forgotten. Both are asked for some blocks before they are used.
const (
	frontsAhead  = 5
	columnsAhead = 2
	aheadRows    = 24 // that a device is found away from where it would be if ids were even
)

// ahead asks for what is needed soon when candidate i is opened next.
func (w *worker) ahead(seg *segmentScan, candidates []index.Candidate, i int) {
	if i == 0 {
		for _, c := range candidates[:min(frontsAhead, len(candidates))] {
			w.aheadFront(seg, c)
		}
		for _, c := range candidates[:min(columnsAhead, len(candidates))] {
			w.aheadColumn(seg, c)
		}
	}
	if i+frontsAhead < len(candidates) {
		w.aheadFront(seg, candidates[i+frontsAhead])
	}
	if i+columnsAhead < len(candidates) {
		w.aheadColumn(seg, candidates[i+columnsAhead])
	}
}

func (w *worker) aheadFront(seg *segmentScan, c index.Candidate) {
	if seg.file.Recent(int(c.Block)) {
		seg.file.AheadFront(seg.idx.Block(c.Block).Offset)
	}
}

// aheadColumn asks for the first column that is tested, in the sub-runs where it is.
func (w *worker) aheadColumn(seg *segmentScan, c index.Candidate) {
	need := c.Need &^ needHidden
	if need == 0 || !seg.file.Recent(int(c.Block)) {
		return
	}
	first := filterOrder[0]
	for _, d := range filterOrder {
		if need>>d&1 != 0 {
			first = d
			break
		}
	}
	info := seg.idx.Block(c.Block)
	from, to := 0.0, 1.0
	if set := w.box[record.MID]; need>>record.MID&1 != 0 && len(set) == 1 {
		width := float64(info.Max[record.MID]-info.Min[record.MID]) + 1
		from = max(0, float64(set[0].From-info.Min[record.MID])/width)
		to = min(1, float64(set[0].To-info.Min[record.MID])/width)
	}
	w.tested = w.tested[:0]
	lo := 0
	for i := range info.Subs {
		sub := &info.Subs[i]
		hi := int(sub.End)
		if lo < hi && w.box[record.Cap].Meets(sub.CapLo, sub.CapHi) &&
			seg.ranks.Meets(int64(sub.RankLo), int64(sub.RankHi)) {
			start, end := lo+int(from*float64(hi-lo)), lo+int(to*float64(hi-lo))
			w.tested = append(w.tested, segment.Span{Lo: uint32(max(lo, start-aheadRows)),
				Hi: uint32(min(hi, end+aheadRows))})
		}
		lo = hi
	}
	seg.file.AheadColumn(info.Offset, first, w.tested)
}
