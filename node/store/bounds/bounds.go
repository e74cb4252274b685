// Package bounds has the least and the greatest value of each part of keys: of a box, and of rows.
//
// It does not know what they are compared for. Its main type is [Box]. It starts no goroutine.
package bounds

import (
	"math"

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

// Meets reports whether two bounds overlap.
func (b *Box) Meets(o *Box) bool {
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

// All returns the bounds that every box meets.
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
