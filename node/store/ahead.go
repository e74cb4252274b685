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
	aheadRows    = 12 // that a device is found away from where it would be if ids were even
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
	if seg.file.Opened(int(c.Block)) {
		seg.file.AheadFront(seg.idx.Block(c.Block).Offset)
	}
}

// aheadColumn asks for the first column that is tested, in the sub-runs where it is, and for the
// payloads of rows that are likely in the box.
func (w *worker) aheadColumn(seg *segmentScan, c index.Candidate) {
	if !seg.file.Opened(int(c.Block)) {
		return
	}
	need := c.Need &^ needHidden
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
	w.likely = w.likely[:0]
	lo := 0
	for i := range info.Subs {
		sub := &info.Subs[i]
		hi := int(sub.End)
		if lo < hi && w.box[record.Cap].Meets(sub.CapLo, sub.CapHi) &&
			seg.ranks.Meets(int64(sub.RankLo), int64(sub.RankHi)) {
			start, end := lo+int(from*float64(hi-lo)), lo+int(to*float64(hi-lo))
			if end-start > aheadRows {
				w.likely = append(w.likely, segment.Span{Lo: uint32(start), Hi: uint32(end)})
			}
			if need != 0 {
				seg.aheadTested(info.Offset, need, first,
					max(lo, start-aheadRows), min(hi, end+aheadRows))
			}
		}
		lo = hi
	}
	if len(w.likely) > 0 && need&^(1<<record.MID) == 0 &&
		w.scan.parts&segment.Payloads != 0 {
		seg.file.AheadWords(info.Offset, w.likely)
	}
}

// aheadTested asks for rows of the first column that is tested. Devices alone are searched for, at
// either end of their rows.
func (seg *segmentScan) aheadTested(
	offset uint64, need uint8, first record.Dim, start, end int,
) {
	if need != 1<<record.MID || end-start <= 4*aheadRows {
		seg.file.AheadColumn(offset, first, start, end)
		return
	}
	seg.file.AheadColumn(offset, first, start, start+2*aheadRows)
	seg.file.AheadColumn(offset, first, end-2*aheadRows, end)
}
