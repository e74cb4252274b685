package record

import (
	"slices"
	"sort"
	"strings"

	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/where"
)

// Range is a half-open interval [From, To) of one dimension. To equal to the dimension's
// maximum means "no end".
type Range struct{ From, To int64 }

// Contains reports whether v lies in the range.
func (r Range) Contains(v int64) bool { return r.From <= v && v < r.To }

// All returns the range that holds every value of a dimension.
func All(d Dim) Range { return Range{d.Min(), d.Max()} }

// At returns the range that holds one value.
func At(v int64) Range { return Range{v, v + 1} }

// RangeSet is a set of ranges of one dimension; empty means the whole dimension, but in a query the
// moids that are not reserved. A normalized set is sorted; its ranges neither overlap nor touch.
type RangeSet []Range

// Contains reports whether v lies in one of the ranges of a normalized set.
func (s RangeSet) Contains(v int64) bool {
	if len(s) == 0 {
		return true
	}
	i := s.firstBehind(v)
	return i < len(s) && s[i].From <= v
}

// fewRanges are looked through one by one.
const fewRanges = 8

// firstBehind returns the index of the first range of a normalized set that ends behind a value.
func (s RangeSet) firstBehind(v int64) int {
	if len(s) > fewRanges {
		return sort.Search(len(s), func(i int) bool { return s[i].To > v })
	}
	for i := range s {
		if s[i].To > v {
			return i
		}
	}
	return len(s)
}

// Intersects reports whether a normalized set has a value in [lo, hi], both included.
func (s RangeSet) Intersects(lo, hi int64) bool {
	if len(s) == 1 {
		return s[0].From <= hi && lo < s[0].To
	}
	i := s.firstBehind(lo)
	return i < len(s) && s[i].From <= hi || len(s) == 0
}

// Covers reports whether every value in [lo, hi], both included, lies in a normalized set.
func (s RangeSet) Covers(lo, hi int64) bool {
	if len(s) == 1 {
		return s[0].From <= lo && hi < s[0].To
	}
	i := s.firstBehind(lo)
	return i < len(s) && s[i].From <= lo && hi < s[i].To || len(s) == 0
}

// Near returns the ranges of a normalized set that have values in [lo, hi], both included. It
// aliases the set, and is empty also where the set is.
func (s RangeSet) Near(lo, hi int64) RangeSet {
	s = s[s.firstBehind(lo):]
	end := len(s)
	if len(s) > fewRanges {
		end = sort.Search(len(s), func(i int) bool { return s[i].From > hi })
	}
	for end > 0 && s[end-1].From > hi {
		end--
	}
	return s[:end]
}

// Overlaps reports whether two normalized sets have a value in common.
func (s RangeSet) Overlaps(o RangeSet) bool {
	for i, k := 0, 0; i < len(s) && k < len(o); {
		switch {
		case s[i].To <= o[k].From:
			i++
		case o[k].To <= s[i].From:
			k++
		default:
			return true
		}
	}
	return len(s) == 0 || len(o) == 0
}

// Box is one set of ranges per dimension: the product of the five sets.
type Box [NumDims]RangeSet

// Contains reports whether a key lies in a normalized box.
func (x *Box) Contains(k Key) bool {
	for d := range NumDims {
		if !x[d].Contains(k.Part(Dim(d))) {
			return false
		}
	}
	return true
}

// Pins reports whether the box holds one value of a dimension only.
func (x *Box) Pins(d Dim) bool {
	return len(x[d]) == 1 && x[d][0].To == x[d][0].From+1
}

// Overlaps reports whether a key may lie in both of two normalized boxes.
func (x *Box) Overlaps(o *Box) bool {
	for d := range NumDims {
		if !x[d].Overlaps(o[d]) {
			return false
		}
	}
	return true
}

// Normalize brings the box into the form that [Query.Normalize] describes, except that an empty set
// of moids stays empty and means all: so are boxes stored, in events and copies. The error is an
// [*InvalidError].
func (x *Box) Normalize() error {
	ranges := 0
	for d := range NumDims {
		if len(x[d]) > MaxRangesPerDim {
			return invalid(Dim(d).String(), TooMany, "%d ranges, at most %d", len(x[d]),
				MaxRangesPerDim)
		}
		ranges += len(x[d])
	}
	free := make(RangeSet, ranges) // for all sets: a small query feels each allocation
	for d := range NumDims {
		n := len(x[d])
		set, err := normalizeSet(Dim(d), x[d], free[:0:n])
		if err != nil {
			return err
		}
		x[d], free = set, free[n:]
	}
	return nil
}

// View chooses which versions of a reading a query sees.
type View uint8

// Views. Versions are resolved first, over the whole history (as of: over acq below the given one);
// the box then chooses among the winners.
const (
	ViewAll    View = 0 // every version
	ViewLatest View = 1 // per (cid, mid, moid, cap) the version with the greatest acq
	ViewAsOf   View = 2 // the latest among those with acq < Query.AsOfAcqNs
)

// Order is the order of the records of an answer.
type Order uint8

// Orders. Records that compare equal come in no particular order.
const (
	OrderNone Order = 0
	OrderAcq  Order = 1 // by acq, then key
	OrderKey  Order = 2 // by cid, mid, moid, cap, acq
)

// PluginCall names a module, as [SplitPluginRef] reads it, and the parameters that its init gets.
// Empty Name: none.
type PluginCall struct {
	Name   string
	Params []byte
	// Module comes with the query in place of one that the node has, and is not kept; Name is then
	// what it is called in errors.
	Module []byte
}

// GroupBy chooses the parts of the group key of an aggregate. The zero value is one group.
// CapBucketNs > 0 adds the start of the fixed-width bucket of cap, counted from the Unix epoch;
// Window, in its place, the start of the window of the calendar.
//
// Key adds what the description of the device has for it, or for several keys with commas between
// them, see [registry.ParseKeys]: devices without form a group of their own. It is about the
// devices of one tenant, as they are described in the view of the query. Groups are in the order of
// these values in place of that of mids; with MID, too, of mids.
type GroupBy struct {
	CID, MID, MOID bool
	CapBucketNs    int64
	Window         Window
	Key            string
}

// Query asks for records, or for an aggregate of records, in a box.
type Query struct {
	Box       Box
	View      View
	AsOfAcqNs int64  // with ViewAsOf only
	Last      uint32 // with ViewLatest and ViewAsOf: the newest readings of each series in the box
	Order     Order
	Limit     uint64 // records (with an aggregate: groups) at most; 0 means no limit
	KeysOnly  bool   // leave payloads out of the answer
	// Select chooses devices by what is said of them, in the language of [registry.ParseSelector]:
	// only records of these are seen. It is about the devices of one tenant. Empty: all devices.
	Select string
	// Moving says that places in Select are where devices were when readings were captured, by
	// their readings of a quantity: in the form of [registry.Moving], e.g. location. Empty: places
	// are those of descriptions.
	Moving string
	// Verify compares everything that is read with its checksum, and not only what was not verified
	// lately: for an answer that is stored elsewhere, under checksums of its own.
	Verify bool

	// Where keeps rows by the fields of their payloads, as their quantities are declared, in the
	// language of package where; [where.Typed] names the type of what is not declared. Empty: all
	// rows. It sees what the view shows, and neither tombstones nor, with Last, more than that.
	Where     string
	Filters   []PluginCall // in this order, each on the rows that those before it kept
	Aggregate PluginCall
	GroupBy   GroupBy
}

// Normalize checks the query and brings it into the form that the packages below rely on: ranges
// clipped to their dimension, sorted and merged, a set that covers its dimension made empty. Of
// moids an empty set becomes all that are not reserved, and one that covers the dimension stays, as
// it means the reserved ones, too: a normalized query stays as it is, on any number of nodes.
// The error is an [*InvalidError].
func (q *Query) Normalize() error {
	if err := q.Box.NormalizeAsked(); err != nil {
		return err
	}
	if err := q.GroupBy.validate(&q.Box); err != nil {
		return err
	}
	switch {
	case q.View > ViewAsOf:
		return invalid("view", OutOfRange, "%d is not a view", q.View)
	case q.View != ViewAsOf && q.AsOfAcqNs != 0:
		return invalid("as of", Inconsistent, "an acq is given, but the view is not \"as of\"")
	case q.View == ViewAll && q.Last != 0:
		return invalid("last", Inconsistent, "counts readings, and the view is all versions; "+
			"ask for the latest, or as of a time")
	case q.Last > MaxLast:
		return invalid("last", OutOfRange, "%d readings of each series, at most %d; "+
			"for more take a range of cap", q.Last, MaxLast)
	case q.Order > OrderKey:
		return invalid("order", OutOfRange, "%d is not an order", q.Order)
	case q.Aggregate.Name == "" && q.GroupBy != GroupBy{}:
		return invalid("group by", Inconsistent, "needs an aggregate plugin")
	case q.Aggregate.Name != "" && q.Order == OrderAcq:
		return invalid("order", Inconsistent, "groups have no acq; order by key or not at all")
	}
	if q.Where != "" {
		if err := where.Check(q.Where); err != nil {
			return invalid("where", Syntax, "%v", err)
		}
	}
	if err := NormalizeSelect(&q.Select, &q.Box); err != nil {
		return err
	}
	if err := q.checkMoving(); err != nil {
		return err
	}
	if len(q.Filters) > MaxFilters {
		return invalid("filter", TooMany, "%d filters, at most %d", len(q.Filters), MaxFilters)
	}
	for i, call := range q.Filters {
		if call.Name == "" {
			return invalid("filter", Inconsistent, "filter %d of %d has no plugin name", i+1,
				len(q.Filters))
		}
		if err := call.validate("filter"); err != nil {
			return err
		}
	}
	return q.Aggregate.validate("aggregate")
}

// NormalizeSelect checks the selector of devices of a normalized box, empty for none, and brings it
// into the form of its own [registry.Selector.String]. The error is an [*InvalidError].
func NormalizeSelect(selector *string, box *Box) error {
	if *selector == "" {
		return nil
	}
	s, err := registry.ParseSelector(*selector)
	if err != nil {
		return invalid("select", Syntax, "%v", err)
	}
	if !box.Pins(CID) {
		return invalid("select", Inconsistent, "devices are those of a tenant; choose one by cid")
	}
	if text := s.String(); len(text) <= registry.MaxSelectorBytes {
		*selector = text
	}
	return nil
}

// checkMoving checks what places of devices that move are.
func (q *Query) checkMoving() error {
	if q.Moving == "" {
		return nil
	}
	if _, err := registry.ParseMoving(q.Moving); err != nil {
		return invalid("moving", OutOfRange, "%v", err)
	}
	if q.Select == "" {
		return invalid("moving", Inconsistent, "is about places in select, which is not given")
	}
	s, err := registry.ParseSelector(q.Select)
	if err != nil {
		return invalid("select", Syntax, "%v", err)
	}
	switch n := len(s.Places()); {
	case n == 0:
		return invalid("moving", Inconsistent, "select has no within, near or alt")
	case n > registry.MaxMovingPlaces:
		return invalid("moving", TooMany, "select has %d conditions about places, at most %d", n,
			registry.MaxMovingPlaces)
	}
	return nil
}

func (c PluginCall) validate(part string) error {
	switch {
	case c.Name == "" && len(c.Params) > 0:
		return invalid(part, Inconsistent, "parameters are given without a plugin name")
	case c.Name != "" && !validPluginRef(c.Name):
		return invalid(part, OutOfRange, "%q is not a plugin name: 1 to %d of a-z, 0-9, - and _; "+
			"one version of it is name@digest, with %d to 64 hex digits of its SHA-256",
			clip(c.Name), MaxPluginNameBytes, MinDigestDigits)
	case c.Name == "" && c.Module != nil:
		return invalid(part, Inconsistent, "a module is given without a plugin name")
	case c.Module != nil && !ValidPluginName(c.Name):
		return invalid(part, Inconsistent, "%q has a digest, and its module comes with the query",
			clip(c.Name))
	case len(c.Params) > MaxParamsBytes:
		return invalid(part, TooLarge, "%d bytes of parameters, at most %d",
			len(c.Params), MaxParamsBytes)
	}
	return nil
}

// ValidPluginName reports whether a name may be given to a plugin.
func ValidPluginName(name string) bool {
	if len(name) == 0 || len(name) > MaxPluginNameBytes {
		return false
	}
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// NewPluginName reports whether a plugin may be stored under a name: a valid one that no command
// reads as a flag, e.g. -rf, and that is not a device of Windows, e.g. con, as names of plugins are
// those of folders and files, too. Plugins stored before this rule keep their names.
func NewPluginName(name string) bool {
	if !ValidPluginName(name) || name[0] == '-' {
		return false
	}
	switch name {
	case "con", "prn", "aux", "nul":
		return false
	}
	numbered := len(name) == 4 && name[3] >= '0' && name[3] <= '9'
	return !(numbered && (name[:3] == "com" || name[:3] == "lpt"))
}

// MinDigestDigits is how many digits of a digest name a version at least.
const MinDigestDigits = 8

// SplitPluginRef splits name@digest, which means one version of a plugin, by the first digits of
// its SHA-256; a name alone means the current one.
func SplitPluginRef(ref string) (name, digest string, ok bool) {
	name, digest, pinned := strings.Cut(ref, "@")
	if !pinned {
		return name, "", ValidPluginName(name)
	}
	for _, c := range []byte(digest) {
		if !(c >= 'a' && c <= 'f' || c >= '0' && c <= '9') {
			return "", "", false
		}
	}
	ok = ValidPluginName(name) && len(digest) >= MinDigestDigits && len(digest) <= 64
	return name, digest, ok
}

func validPluginRef(ref string) bool {
	_, _, ok := SplitPluginRef(ref)
	return ok
}

func clip(s string) string { return excerpt.Of(s, 80) }

// normalizeSet makes the normalized set in the memory of clipped, which is empty and has space for
// as many ranges.
func normalizeSet(d Dim, set, clipped RangeSet) (RangeSet, error) {
	if len(set) == 0 {
		return nil, nil
	}
	for _, r := range set {
		if r.From == r.To {
			return nil, invalid(d.String(), EmptyRange,
				"[%d, %d) holds nothing; one value v is [v, v+1)",
				r.From, r.To)
		}
		if r.From > r.To {
			return nil, invalid(d.String(), ReversedRange, "[%d, %d) ends before it starts",
				r.From, r.To)
		}
		if r.From >= d.Max() || r.To <= d.Min() {
			return nil, invalid(d.String(), OutOfRange, "[%d, %d) lies outside [%d, %d)",
				r.From, r.To, d.Min(), d.Max())
		}
		clipped = append(clipped, Range{max(r.From, d.Min()), min(r.To, d.Max())})
	}
	slices.SortFunc(clipped, func(a, b Range) int {
		if a.From == b.From {
			return 0
		}
		return order(a.From, b.From)
	})
	out := clipped[:1]
	for _, r := range clipped[1:] {
		if last := &out[len(out)-1]; r.From <= last.To {
			last.To = max(last.To, r.To)
		} else {
			out = append(out, r)
		}
	}
	if len(out) == 1 && out[0] == All(d) && d != MOID {
		return nil, nil
	}
	return out, nil
}
