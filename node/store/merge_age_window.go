package store

import (
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// newest returns when the newest row was captured, or acquired. A capture in the future is not
// taken for more than its acquisition.
func newestOf(seg *shards.Segment, d record.Dim) int64 {
	if d == record.Cap {
		return min(seg.Index.Bounds()[record.Cap].Max, seg.Meta.LastAcqNs)
	}
	return seg.Meta.LastAcqNs
}

// recordWindow finds the window of a segment, once for each set of tombstones. The merger calls it.
func recordWindow(seg *shards.Segment, t *tombstone.Set) {
	if seg.Expiring.WindowOf == t {
		return
	}
	seg.Expiring.WindowOf = t
	var w *mergepolicy.Window
	for i := range t.Ages {
		r := &t.Ages[i]
		if newest := newestOf(seg, r.Dim); newest >= r.FloorNs && mayContain(seg, r.Scope) {
			w = &mergepolicy.Window{WidthNs: r.WindowNs, FromNs: newest, ToNs: newest}
			break
		}
	}
	seg.Window.Store(w)
}

// mayContain reports whether the segment may hold rows of a tenant and quantity.
func mayContain(seg *shards.Segment, sc retention.Scope) bool {
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
	some, known := x.Contains[key]
	if !known {
		if x.Contains == nil {
			x.Contains = map[retention.ScopeKey]bool{}
		}
		some = estimateSegmentRows(seg, &box) > 0
		x.Contains[key] = some
	}
	return some
}
