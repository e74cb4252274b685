package store

import (
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

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
	var w *mergepolicy.Window
	for i := range h.Ages {
		r := &h.Ages[i]
		if newest := seg.newest(r.Dim); newest >= r.FloorNs && seg.holds(r.Scope) {
			w = &mergepolicy.Window{WidthNs: r.WindowNs, FromNs: newest, ToNs: newest}
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
