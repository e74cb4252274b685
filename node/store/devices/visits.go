package devices

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/pentad-db/pentad/sdk/registry"
)

// Region returns conditions about places one of which a location meets, if all is set all of them,
// where a device meets the selector. It is not ok if a device may meet it where none is met: then
// all locations decide, and those that meet none of the conditions are not only ends of visits.
func (t *Tracker) Region() (places []registry.Expr, all, ok bool) {
	sets := t.unknown.sets
	for _, c := range t.devices {
		sets |= c.sets
	}
	if sets&1 == 1 {
		return nil, false, false
	}
	common := uint(1)<<len(t.places) - 1
	for rest := sets; rest != 0; rest &= rest - 1 {
		common &= uint(bits.TrailingZeros64(rest))
	}
	if common == 0 {
		return t.places, false, true
	}
	for i, x := range t.places {
		if common>>i&1 == 1 {
			places = append(places, x)
		}
	}
	return places, true, true
}

// Visits are the times at which devices were seen where they meet a selector, and until when they
// were not seen elsewhere. They are for selectors of which Region is ok. End may be called by
// several goroutines.
type Visits struct {
	mids   []int64 // ascending
	starts []uint32
	begins []int64        // those of mids[i] are begins[starts[i]:starts[i+1]], ascending
	ends   []atomic.Int64 // of each the cap of the next location
}

// atHome is the begin of the visit of a device to the place that it is described with.
const atHome = math.MinInt64

// Visits returns the visits that begin in a time, with those that began before and may last. Their
// ends are not known yet. The tracker has seen the locations of the devices that meet its region,
// and the last one of each device before the time, wherever that is.
//
// Errors: ErrTooMany.
func (t *Tracker) Visits(within Span) (*Visits, error) {
	seen := map[int64]bool{} // devices that have a location before
	visits := t.sights[:0]
	for _, s := range t.sights {
		if s.capNs < within.FromNs {
			seen[s.mid] = true
		}
		c, known := t.devices[s.mid]
		if !known {
			c = t.unknown
		}
		if c.sets>>s.set&1 == 1 {
			visits = append(visits, s)
		}
	}
	for mid, c := range t.devices {
		if c.described && !seen[mid] {
			if t.bytes += sightBytes; t.bytes > t.max {
				break
			}
			visits = append(visits, sight{mid: mid, capNs: atHome})
		}
	}
	if t.bytes += int64(len(visits)) * spanBytes; t.bytes > t.max {
		return nil, ErrTooMany
	}
	slices.SortFunc(visits, func(a, b sight) int {
		return cmp.Or(cmp.Compare(a.mid, b.mid), cmp.Compare(a.capNs, b.capNs))
	})
	v := &Visits{begins: make([]int64, len(visits)), ends: make([]atomic.Int64, len(visits))}
	for i, s := range visits {
		if len(v.mids) == 0 || v.mids[len(v.mids)-1] != s.mid {
			v.mids, v.starts = append(v.mids, s.mid), append(v.starts, uint32(i))
		}
		v.begins[i] = s.capNs
		v.ends[i].Store(within.ToNs)
	}
	v.starts = append(v.starts, uint32(len(visits)))
	return v, nil
}

// MIDs returns the devices that have visits, ascending. They must not be changed.
func (v *Visits) MIDs() []int64 { return v.mids }

// Open returns the time in which visits may end by another location. A location older than maxAgeNs
// is no place, 0: it is one until the next one.
func (v *Visits) Open(within Span, maxAgeNs int64) Span {
	open := Span{math.MaxInt64, math.MinInt64}
	for _, begin := range v.begins {
		open.FromNs = min(open.FromNs, max(begin, within.FromNs))
		open.ToNs = max(open.ToNs, agedAt(begin, maxAgeNs))
	}
	return Span{open.FromNs, min(open.ToNs, within.ToNs)}
}

// agedAt returns when a location is no place any more.
func agedAt(capNs, maxAgeNs int64) int64 {
	if capNs == atHome || maxAgeNs == 0 || capNs >= math.MaxInt64-maxAgeNs {
		return math.MaxInt64
	}
	return capNs + maxAgeNs + 1
}

// End tells of locations, wherever they are, by the mids and caps of rows.
func (v *Visits) End(mids, caps []int64) {
	var begins []int64 // of the device of the row before
	last, from := int64(0), uint32(0)
	for i, mid := range mids {
		if i == 0 || mid != last {
			last, begins = mid, nil
			if at, ok := slices.BinarySearch(v.mids, mid); ok {
				from = v.starts[at]
				begins = v.begins[from:v.starts[at+1]]
			}
		}
		n, _ := slices.BinarySearch(begins, caps[i]) // those before n begin earlier
		if n == 0 {
			continue
		}
		end := &v.ends[from+uint32(n-1)]
		for was := end.Load(); caps[i] < was && !end.CompareAndSwap(was, caps[i]); {
			was = end.Load()
		}
	}
}

// Tracks returns when the devices meet the selector in a time, once all ends are told.
func (v *Visits) Tracks(within Span, maxAgeNs int64) *Tracks {
	out := &Tracks{starts: []uint32{0}}
	for at, mid := range v.mids {
		before := len(out.spans)
		for i := v.starts[at]; i < v.starts[at+1]; i++ {
			begin := v.begins[i]
			s := Span{max(begin, within.FromNs),
				min(v.ends[i].Load(), agedAt(begin, maxAgeNs), within.ToNs)}
			switch n := len(out.spans); {
			case s.FromNs >= s.ToNs:
			case n > before && out.spans[n-1].ToNs == s.FromNs:
				out.spans[n-1].ToNs = s.ToNs
			default:
				out.spans = append(out.spans, s)
			}
		}
		if len(out.spans) > before {
			out.mids = append(out.mids, mid)
			out.starts = append(out.starts, uint32(len(out.spans)))
		}
	}
	return out
}
