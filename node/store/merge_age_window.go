package store

import (
	"iter"

	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// newestOf returns when the newest row was captured, or acquired. A capture in the future is not
// taken for more than its acquisition.
func newestOf(seg *shards.Segment, d record.Dim) int64 {
	if d == record.Cap {
		return min(seg.Index.Bounds()[record.Cap].Max, seg.Meta.LastAcqNs)
	}
	return seg.Meta.LastAcqNs
}

// noteWindow finds the window of a segment, once for each history. The merger calls it.
func noteWindow(seg *shards.Segment, h *tombstone.Set) {
	if seg.Expiring.WindowOf == h {
		return
	}
	seg.Expiring.WindowOf = h
	var w *shards.AgeWindow
	for i := range h.Ages {
		r := &h.Ages[i]
		if newest := newestOf(seg, r.Dim); newest >= r.FloorNs && mayHold(seg, r.Scope) {
			w = &shards.AgeWindow{WidthNs: r.WindowNs, NewestNs: newest}
			break
		}
	}
	seg.Window.Store(w)
}

// mayHold reports whether the segment may hold rows of a tenant and quantity.
func mayHold(seg *shards.Segment, sc retention.Scope) bool {
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
	x := &seg.Expiring
	some, known := x.Holds[key]
	if !known {
		if x.Holds == nil {
			x.Holds = map[retention.ScopeKey]bool{}
		}
		some = about(seg, &box) > 0
		x.Holds[key] = some
	}
	return some
}

// mergeable yields the neighbours that may be merged with each other, and whether no newer ones
// will be with them, because their window is over.
func mergeable(sealed []*shards.Segment) iter.Seq2[[]*shards.Segment, bool] {
	return func(yield func([]*shards.Segment, bool) bool) {
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

func spanOf(seg *shards.Segment) newestSpan {
	if w := seg.Window.Load(); w != nil {
		return newestSpan{w.WidthNs, w.NewestNs, w.NewestNs}
	}
	return newestSpan{0, seg.Meta.LastAcqNs, seg.Meta.LastAcqNs}
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
