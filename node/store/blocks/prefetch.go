package blocks

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// Opening a block is dominated by cache misses on its front and on the first column that is
// filtered. Both are prefetched this many blocks ahead.
const (
	frontPrefetchDistance  = 5
	columnPrefetchDistance = 2
	deviceSlackRows        = 24 // how far a device may be from where evenly spaced ids are
)

// prefetchNext asks for what is needed soon when candidate i is opened next.
func (r *Reader) prefetchNext(seg *PlannedSegment, candidates []index.Candidate, i int) {
	if i == 0 {
		for _, c := range candidates[:min(frontPrefetchDistance, len(candidates))] {
			r.prefetchFront(seg, c)
		}
		for _, c := range candidates[:min(columnPrefetchDistance, len(candidates))] {
			r.prefetchColumn(seg, c)
		}
	}
	if i+frontPrefetchDistance < len(candidates) {
		r.prefetchFront(seg, candidates[i+frontPrefetchDistance])
	}
	if i+columnPrefetchDistance < len(candidates) {
		r.prefetchColumn(seg, candidates[i+columnPrefetchDistance])
	}
}

func (r *Reader) prefetchFront(seg *PlannedSegment, c index.Candidate) {
	if seg.File.RecentlyVerified(int(c.Block)) {
		seg.File.PrefetchFront(seg.Index.Block(c.Block).Offset)
	}
}

// prefetchColumn asks for the first column that is tested, in the sub-runs where it is.
func (r *Reader) prefetchColumn(seg *PlannedSegment, c index.Candidate) {
	residual := c.Residual &^ ResidualTombstones
	if residual == 0 || !seg.File.RecentlyVerified(int(c.Block)) {
		return
	}
	first := filterOrder[0]
	for _, d := range filterOrder {
		if residual>>d&1 != 0 {
			first = d
			break
		}
	}
	info := seg.Index.Block(c.Block)
	from, to := 0.0, 1.0
	if set := r.Box[record.MID]; residual>>record.MID&1 != 0 && len(set) == 1 {
		width := float64(info.Max[record.MID]-info.Min[record.MID]) + 1
		from = max(0, float64(set[0].From-info.Min[record.MID])/width)
		to = min(1, float64(set[0].To-info.Min[record.MID])/width)
	}
	r.prefetchSpans = r.prefetchSpans[:0]
	lo := 0
	for i := range info.Subs {
		sub := &info.Subs[i]
		hi := int(sub.End)
		if lo < hi && r.Box[record.Cap].Intersects(sub.CapLo, sub.CapHi) &&
			seg.Ranks.Intersects(int64(sub.RankLo), int64(sub.RankHi)) {
			start, end := lo+int(from*float64(hi-lo)), lo+int(to*float64(hi-lo))
			r.prefetchSpans = append(r.prefetchSpans, segment.Span{
				Lo: uint32(max(lo, start-deviceSlackRows)),
				Hi: uint32(min(hi, end+deviceSlackRows))})
		}
		lo = hi
	}
	seg.File.PrefetchColumn(info.Offset, first, r.prefetchSpans)
}
