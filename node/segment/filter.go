package segment

import (
	"slices"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

// match is a range of values in the packed domain of a column: low <= packed <= low + span.
type match struct{ low, span uint64 }

// translate turns a normalised set of ranges of values into ranges of packed values, leaving out
// what lies outside the column. all says that every value lies in the set.
func (c *column) translate(set record.RangeSet, dst []match) (matches []match, all bool) {
	base := int64(c.base)
	for _, r := range set {
		if r.To <= base || r.From >= r.To {
			continue
		}
		low := uint64(0)
		if r.From > base {
			low = uint64(r.From) - c.base
			low = low/c.gcd + min(low%c.gcd, 1)
		}
		high := min((uint64(r.To-1)-c.base)/c.gcd, c.low)
		if low <= high {
			dst = append(dst, match{low, high - low})
			all = all || low == 0 && high == c.low
		}
	}
	return dst, all || len(set) == 0
}

// FilterSpan appends to sel the positions in [lo, hi) whose value of a dimension lies in a
// normalised set, in ascending order. For [record.Acq] the values are ranks.
//
// Cost: about 1.4 ns a row for one range; no allocation when sel has room.
func (b *Block) FilterSpan(
	d record.Dim, set record.RangeSet, lo, hi int, sel []uint32,
) []uint32 {
	c := &b.keys[d]
	var all bool
	b.matches, all = c.translate(set, b.matches[:0])
	if lo >= hi || len(b.matches) == 0 && !all {
		return sel
	}
	start := len(sel)
	sel = slices.Grow(sel, hi-lo)[:start+hi-lo]
	out := sel[start:]
	if all {
		for k := range out {
			out[k] = uint32(lo + k)
		}
		return sel
	}
	k := 0
	if len(b.matches) == 1 {
		k = c.filterSpan(b.matches[0], lo, out)
	} else {
		for i := range hi - lo {
			out[k] = uint32(lo + i)
			if matchesAny(b.matches, c.packed(lo+i)) {
				k++
			}
		}
	}
	return sel[:start+k]
}

// Filter keeps those positions of sel whose value of a dimension lies in a normalised set, in
// place. For [record.Acq] the values are ranks.
func (b *Block) Filter(d record.Dim, set record.RangeSet, sel []uint32) []uint32 {
	c := &b.keys[d]
	var all bool
	b.matches, all = c.translate(set, b.matches[:0])
	if all {
		return sel
	}
	k := 0
	switch len(b.matches) {
	case 0:
	case 1:
		k = c.filter(b.matches[0], sel)
	default:
		for _, i := range sel {
			sel[k] = i
			if matchesAny(b.matches, c.packed(int(i))) {
				k++
			}
		}
	}
	return sel[:k]
}

// manyMatches is from how many ranges on searching beats trying all.
const manyMatches = 8

func matchesAny(matches []match, v uint64) bool {
	if len(matches) >= manyMatches {
		i := sort.Search(len(matches), func(i int) bool { return matches[i].low > v })
		return i > 0 && v-matches[i-1].low <= matches[i-1].span
	}
	for _, m := range matches {
		if v-m.low <= m.span {
			return true
		}
	}
	return false
}

// SearchMID returns the positions in [lo, hi) whose mid lies in [from, to), where the rows of
// [lo, hi) are sorted by mid, as those of a sub-run with one cid and moid are.
//
// Cost: two binary searches, the second over the few rows that a device has.
func (b *Block) SearchMID(lo, hi int, from, to int64) (first, end int) {
	c := &b.keys[record.MID]
	set := [1]record.Range{{From: from, To: to}}
	var all bool
	b.matches, all = c.translate(set[:], b.matches[:0])
	if all {
		return lo, hi
	}
	if len(b.matches) == 0 {
		return lo, lo
	}
	m := b.matches[0]
	first = c.lowerBound(lo, hi, m.low)
	last := m.low + m.span
	if last == c.low {
		return first, hi
	}
	step := 1
	for end = first; end+step < hi && c.packed(end+step) <= last; step *= 2 {
		end += step
	}
	return first, c.lowerBound(end, min(end+step, hi), last+1)
}

// lowerBound returns the first position in [lo, hi) with a packed value of at least v.
func (c *column) lowerBound(lo, hi int, v uint64) int {
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if c.packed(mid) < v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
