// Package bounds has the least and the greatest value of each part of keys: of a box, and of rows.
//
// It does not know what they are compared for. Its main type is [Box]. It starts no goroutine.
package bounds

import (
	"math"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// Box are the least and the greatest value of each dimension of a box.
type Box [record.NumDims]index.Bound

// Of returns the bounds of a box.
func Of(box *record.Box) (b Box) {
	for d := range record.NumDims {
		b[d] = Extent(box[d], record.Dim(d))
	}
	return b
}

// Overlaps reports whether two bounds overlap.
func (b *Box) Overlaps(o *Box) bool {
	for d := range record.NumDims {
		if b[d].Max < o[d].Min || o[d].Max < b[d].Min {
			return false
		}
	}
	return true
}

// Include widens bounds to others.
func (b *Box) Include(o *Box) {
	for d := range b {
		b[d].Min, b[d].Max = min(b[d].Min, o[d].Min), max(b[d].Max, o[d].Max)
	}
}

// All returns the bounds that every box overlaps.
func All() *Box {
	b := new(Box)
	for d := range b {
		b[d] = index.Bound{Min: math.MinInt64, Max: math.MaxInt64}
	}
	return b
}

// OfRows returns the bounds of a batch that is not empty; those of acq are everything.
func OfRows(rows *record.Batch) Box {
	b := *All()
	b[record.CID] = Values(rows.CID)
	b[record.MID] = Values(rows.MID)
	b[record.MOID] = Values(rows.MOID)
	b[record.Cap] = Values(rows.CapNs)
	return b
}

// Values returns the least and the greatest of some values, at least one.
func Values[T int32 | int64](values []T) index.Bound {
	lo, hi := values[0], values[0]
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	return index.Bound{Min: int64(lo), Max: int64(hi)}
}

// Clip returns what of a set of acqs is below an end.
func Clip(set record.RangeSet, end int64) record.RangeSet {
	var out record.RangeSet
	for _, r := range set {
		if r.From < end {
			out = append(out, record.Range{From: r.From, To: min(r.To, end)})
		}
	}
	return out
}

// Extent returns the smallest and the greatest value that a set allows.
func Extent(set record.RangeSet, d record.Dim) index.Bound {
	if len(set) == 0 {
		return index.Bound{Min: d.Min(), Max: d.Max() - 1}
	}
	return index.Bound{Min: set[0].From, Max: set[len(set)-1].To - 1}
}

// Cut returns the parts of a box below a value and from it on.
func Cut(box *record.Box, d record.Dim, at int64) (below, from record.Box) {
	below, from = *box, *box
	below[d] = Intersect(box[d], record.Range{From: d.Min(), To: at})
	from[d] = Intersect(box[d], record.Range{From: at, To: d.Max()})
	return below, from
}

// Intersect returns what of a normalized set lies in a range.
func Intersect(set record.RangeSet, r record.Range) record.RangeSet {
	if len(set) == 0 {
		return record.RangeSet{r}
	}
	var out record.RangeSet
	for _, s := range set {
		if s = (record.Range{From: max(s.From, r.From), To: min(s.To, r.To)}); s.From < s.To {
			out = append(out, s)
		}
	}
	return out
}

// Middle returns a value that has some of the values below it and others not.
func Middle(values []int64) (int64, bool) {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) < 2 {
		return 0, false
	}
	return values[len(values)/2], true
}
