package devices

import (
	"cmp"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/registry"
)

// Span is a time: from the first ns up to the second.
type Span struct{ FromNs, ToNs int64 }

// Tracks says when each of some devices meets a selector. It is immutable.
type Tracks struct {
	mids   []int64  // ascending
	starts []uint32 // the spans of mids[i] are spans[starts[i]:starts[i+1]], ascending
	spans  []Span
}

// MIDs returns the devices that meet it at any time, ascending. They must not be changed.
func (t *Tracks) MIDs() []int64 { return t.mids }

// Of returns when a device meets it: times that ascend and do not touch.
func (t *Tracks) Of(mid int64) []Span {
	i, ok := slices.BinarySearch(t.mids, mid)
	if !ok {
		return nil
	}
	return t.spans[t.starts[i]:t.starts[i+1]]
}

// Whole returns the time from the first moment at which any device meets it to the last one.
func (t *Tracks) Whole() Span {
	all := Span{math.MaxInt64, math.MinInt64}
	for _, s := range t.spans {
		all = Span{min(all.FromNs, s.FromNs), max(all.ToNs, s.ToNs)}
	}
	return all
}

// Has reports whether a time is in one of some spans.
func Has(spans []Span, ns int64) bool {
	i, found := slices.BinarySearchFunc(spans, ns, func(s Span, ns int64) int {
		switch {
		case s.ToNs <= ns:
			return -1
		case s.FromNs > ns:
			return 1
		}
		return 0
	})
	return found && i < len(spans)
}

// Tracker finds [Tracks] of a selector: it is told what devices are described as, and where they
// were. It is used by one goroutine at a time.
type Tracker struct {
	selector *registry.Selector
	places   []registry.Expr
	settled  []registry.Settled // by the set of places that are met
	max      int64              // bytes

	devices map[int64]candidate
	unknown candidate // of a device without a description
	sights  []sight
	bytes   int64
}

// candidate says of a device which sets of places meet the selector, bit by bit, and whether it
// does before its first location: at the place that it is described with.
type candidate struct {
	sets      uint64
	described bool
}

// sight is that a device was seen to meet a set of the places.
type sight struct {
	mid, capNs int64
	set        uint8
}

// What a device, a sight and a span take: in a map, and in a list that grows.
const (
	candidateBytes = 64
	sightBytes     = 48
	spanBytes      = 32
)

// NewTracker returns one that takes some bytes at most. The selector has at most
// [registry.MaxMovingPlaces] conditions about places.
func NewTracker(s *registry.Selector, maxBytes int64) *Tracker {
	t := &Tracker{selector: s, places: s.Places(), max: maxBytes, devices: map[int64]candidate{}}
	for set := range uint64(1) << len(t.places) {
		t.settled = append(t.settled, s.Settle(t.places, set))
	}
	t.unknown = t.candidateOf(&registry.Description{})
	return t
}

func (t *Tracker) candidateOf(d *registry.Description) (c candidate) {
	for set, s := range t.settled {
		if s.All || !s.None && s.Match(d) {
			c.sets |= 1 << set
		}
	}
	c.described = t.selector.Match(d)
	return c
}

// Unknown reports whether devices without a description can meet the selector.
func (t *Tracker) Unknown() bool { return t.unknown != candidate{} }

// Describe tells what a device is described as.
func (t *Tracker) Describe(mid int64, d *registry.Description) {
	c := t.candidateOf(d)
	t.set(mid, func(was *candidate) { *was = c })
}

// set changes what is known of a device, which becomes one that is described.
func (t *Tracker) set(mid int64, change func(*candidate)) {
	c, known := t.devices[mid]
	if !known {
		if t.bytes += candidateBytes; t.bytes > t.max {
			return
		}
	}
	change(&c)
	if known || c != (candidate{}) || t.Unknown() {
		t.devices[mid] = c
	}
}

// Track tells a tracker what all devices of the index are described as.
//
// Cost: that of a selection for each set of the conditions about places.
func (x *Index) Track(t *Tracker) {
	if t.Unknown() {
		x.Each(func(mid int64) { t.set(mid, func(*candidate) {}) })
	}
	for set, s := range t.settled {
		mark := func(mid int64) { t.set(mid, func(c *candidate) { c.sets |= 1 << set }) }
		switch {
		case s.All:
			x.Each(mark)
		case !s.None:
			for _, mid := range x.Select(s.Selector, nil) {
				mark(mid)
			}
		}
	}
	for _, mid := range x.Select(t.selector, nil) {
		t.set(mid, func(c *candidate) { c.described = true })
	}
}

// everySet returns the bits of all sets of places.
func (t *Tracker) everySet() uint64 { return math.MaxUint64 >> (64 - len(t.settled)) }

// Wanted returns the devices whose locations decide, ascending; only of use unless Unknown is true,
// when those of all devices do.
func (t *Tracker) Wanted() (mids []int64) {
	for mid, c := range t.devices {
		if c != (candidate{}) && c != (candidate{t.everySet(), true}) {
			mids = append(mids, mid)
		}
	}
	slices.Sort(mids)
	return mids
}

// See tells where a device was from a time on, until it is seen again; nil: that is not known.
func (t *Tracker) See(mid, capNs int64, p *registry.Place) {
	if t.bytes += sightBytes; t.bytes > t.max {
		return
	}
	at, set := registry.Description{Place: p}, uint8(0)
	for i, x := range t.places {
		if x.Match(&at) {
			set |= 1 << i
		}
	}
	t.sights = append(t.sights, sight{mid, capNs, set})
}

// Tracks returns when the devices meet the selector in a time. A location older than maxAgeNs is no
// place, 0: it is one until the next one.
//
// Errors: ErrTooMany.
func (t *Tracker) Tracks(within Span, maxAgeNs int64) (*Tracks, error) {
	slices.SortFunc(t.sights, func(a, b sight) int {
		return cmp.Or(cmp.Compare(a.mid, b.mid), cmp.Compare(a.capNs, b.capNs))
	})
	var mids []int64
	for mid := range t.devices {
		mids = append(mids, mid)
	}
	if t.Unknown() {
		for _, s := range t.sights {
			if _, known := t.devices[s.mid]; !known {
				mids = append(mids, s.mid)
			}
		}
	}
	slices.Sort(mids)
	mids = slices.Compact(mids)
	out := &Tracks{starts: []uint32{0}}
	rest := t.sights
	for _, mid := range mids {
		for len(rest) > 0 && rest[0].mid < mid {
			rest = rest[1:]
		}
		n := 0
		for n < len(rest) && rest[n].mid == mid {
			n++
		}
		before := len(out.spans)
		out.spans = t.track(mid, rest[:n], within, maxAgeNs, out.spans)
		if rest = rest[n:]; len(out.spans) > before {
			out.mids, out.starts = append(out.mids, mid), append(out.starts, uint32(len(out.spans)))
		}
		if t.bytes += int64(len(out.spans)-before) * spanBytes; t.bytes > t.max {
			break
		}
	}
	if t.bytes > t.max {
		return nil, ErrTooMany
	}
	return out, nil
}

// track appends the spans of a device, by its sights, which ascend.
func (t *Tracker) track(mid int64, seen []sight, within Span, maxAgeNs int64, dst []Span) []Span {
	c, known := t.devices[mid]
	if !known {
		c = t.unknown
	}
	start := len(dst)
	add := func(fromNs, toNs int64, meets bool) {
		fromNs, toNs = max(fromNs, within.FromNs), min(toNs, within.ToNs)
		switch {
		case !meets || fromNs >= toNs:
		case len(dst) > start && dst[len(dst)-1].ToNs == fromNs:
			dst[len(dst)-1].ToNs = toNs
		default:
			dst = append(dst, Span{fromNs, toNs})
		}
	}
	first := within.ToNs
	if len(seen) > 0 {
		first = seen[0].capNs
	}
	add(within.FromNs, first, c.described)
	for i, s := range seen {
		next := within.ToNs
		if i+1 < len(seen) {
			next = seen[i+1].capNs
		}
		oldNs := next
		if maxAgeNs > 0 && s.capNs < math.MaxInt64-maxAgeNs {
			oldNs = min(next, s.capNs+maxAgeNs+1)
		}
		add(s.capNs, oldNs, c.sets>>s.set&1 == 1)
		add(oldNs, next, c.sets&1 == 1)
	}
	return dst
}
