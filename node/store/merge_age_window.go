package store

import (
	"iter"

	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// ageWindow is when the newest row of a segment was captured, or acquired, and how wide the windows
// are in one of which it must be with those of the segments that it is merged with.
type ageWindow struct{ widthNs, newestNs int64 }

// newest returns when the newest row was captured, or acquired. A capture in the future is not
// taken for more than its acquisition.
func (seg *sealedSegment) newest(d record.Dim) int64 {
	if d == record.Cap {
		return min(seg.idx.Bounds()[record.Cap].Max, seg.meta.LastAcqNs)
	}
	return seg.meta.LastAcqNs
}

// noteWindow finds the window of a segment, once for each history. The merger calls it.
func (seg *sealedSegment) noteWindow(h *tombstone.Set) {
	if seg.expiring.windowOf == h {
		return
	}
	seg.expiring.windowOf = h
	var w *ageWindow
	for i := range h.Ages {
		r := &h.Ages[i]
		if newest := seg.newest(r.Dim); newest >= r.FloorNs && seg.holds(r.Scope) {
			w = &ageWindow{r.WindowNs, newest}
			break
		}
	}
	seg.window.Store(w)
}

// holds reports whether the segment may hold rows of a tenant and quantity.
func (seg *sealedSegment) holds(sc retention.Scope) bool {
	if sc.CID == nil && sc.MOID == nil {
		return true
	}
	key, box := sc.Key(), record.Box{}
	if sc.CID != nil {
		box[record.CID] = record.RangeSet{record.At(int64(*sc.CID))}
	}
	if sc.MOID != nil {
		box[record.MOID] = record.RangeSet{record.At(int64(*sc.MOID))}
	}
	x := &seg.expiring
	some, known := x.holds[key]
	if !known {
		if x.holds == nil {
			x.holds = map[retention.ScopeKey]bool{}
		}
		some = seg.about(&box) > 0
		x.holds[key] = some
	}
	return some
}

// mergeable yields the neighbours that may be merged with each other, and whether no newer ones
// will be with them, because their window is over.
func mergeable(sealed []*sealedSegment) iter.Seq2[[]*sealedSegment, bool] {
	return func(yield func([]*sealedSegment, bool) bool) {
		for len(sealed) > 0 {
			n, span := 1, spanOf(sealed[0])
			for n < len(sealed) {
				next := span.with(spanOf(sealed[n]))
				if !next.fits() {
					break
				}
				n, span = n+1, next
			}
			over := false
			if n < len(sealed) {
				next := spanOf(sealed[n])
				next.widthNs = span.widthNs
				over = !span.with(next).fits()
			}
			if !yield(sealed[:n], over) {
				return
			}
			sealed = sealed[n:]
		}
	}
}

// newestSpan is from when to when the newest rows of neighbours are, and the shortest of their
// windows, 0 for any.
type newestSpan struct{ widthNs, fromNs, toNs int64 }

func spanOf(seg *sealedSegment) newestSpan {
	if w := seg.window.Load(); w != nil {
		return newestSpan{w.widthNs, w.newestNs, w.newestNs}
	}
	return newestSpan{0, seg.meta.LastAcqNs, seg.meta.LastAcqNs}
}

func (a newestSpan) with(b newestSpan) newestSpan {
	width := min(a.widthNs, b.widthNs)
	if width == 0 {
		width = max(a.widthNs, b.widthNs)
	}
	return newestSpan{width, min(a.fromNs, b.fromNs), max(a.toNs, b.toNs)}
}

// fits reports whether the newest rows are all in one window.
func (a newestSpan) fits() bool {
	return a.widthNs == 0 || floorDiv(a.fromNs, a.widthNs) == floorDiv(a.toNs, a.widthNs)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
