package segment

import (
	"encoding/binary"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// match is a range of values in the packed domain of a column: low <= packed <= low + span.
type match struct{ low, span uint64 }

// translate turns a set of ranges of values into ranges of packed values, leaving out what lies
// outside the column.
func (c *column) translate(set record.RangeSet, dst []match) []match {
	base, mask := int64(c.base), c.mask()
	for _, r := range set {
		if r.To <= base {
			continue
		}
		low := uint64(0)
		if r.From > base {
			low = uint64(r.From) - uint64(base)
			low = low/c.gcd + min(low%c.gcd, 1)
		}
		high := min((uint64(r.To-1)-uint64(base))/c.gcd, mask)
		if low <= high {
			dst = append(dst, match{low, high - low})
		}
	}
	return dst
}

// FilterSpan appends to sel the positions in [lo, hi) whose value of a dimension lies in a
// normalised, non-empty set. For [record.Acq] the values are ranks.
//
// Cost: about 1.5 ns a row for one range, no allocation when sel has room.
func (b *Block) FilterSpan(
	d record.Dim, set record.RangeSet, lo, hi int, sel []uint32,
) []uint32 {
	c := &b.keys[d]
	b.matches = c.translate(set, b.matches[:0])
	if len(b.matches) == 0 {
		return sel
	}
	start := len(sel)
	sel = slices.Grow(sel, hi-lo)[:start+hi-lo]
	if c.width == 0 {
		for i := range sel[start:] {
			sel[start+i] = uint32(lo + i)
		}
		return sel
	}
	if len(b.matches) > 1 || c.width == 64 {
		return sel[:start+b.filterMany(c, lo, hi, sel[start:])]
	}
	out, k := sel[start:], 0
	low, span := b.matches[0].low, b.matches[0].span
	width, mask, body := uint(c.width), c.mask(), c.body
	at := uint(lo) * width
	for i := lo; i < hi; i++ {
		v := binary.LittleEndian.Uint64(body[at>>3:]) >> (at & 7) & mask
		out[k] = uint32(i)
		if v-low <= span {
			k++
		}
		at += width
	}
	return sel[:start+k]
}

func (b *Block) filterMany(c *column, lo, hi int, out []uint32) int {
	k := 0
	for i := lo; i < hi; i++ {
		if matchesAny(b.matches, c.packed(i)) {
			out[k] = uint32(i)
			k++
		}
	}
	return k
}

func matchesAny(matches []match, v uint64) bool {
	for _, m := range matches {
		if v-m.low <= m.span {
			return true
		}
	}
	return false
}

// Filter keeps those positions of sel whose value of a dimension lies in the set, in place.
func (b *Block) Filter(d record.Dim, set record.RangeSet, sel []uint32) []uint32 {
	c := &b.keys[d]
	b.matches = c.translate(set, b.matches[:0])
	if len(b.matches) == 0 {
		return sel[:0]
	}
	if c.width == 0 {
		return sel
	}
	k := 0
	if len(b.matches) == 1 {
		low, span := b.matches[0].low, b.matches[0].span
		for _, i := range sel {
			sel[k] = i
			if c.packed(int(i))-low <= span {
				k++
			}
		}
		return sel[:k]
	}
	for _, i := range sel {
		sel[k] = i
		if matchesAny(b.matches, c.packed(int(i))) {
			k++
		}
	}
	return sel[:k]
}

// SearchMID returns the positions in [lo, hi) whose mid lies in [from, to), where the rows of
// [lo, hi) are sorted by mid.
func (b *Block) SearchMID(lo, hi int, from, to int64) (first, end int) {
	c := &b.keys[record.MID]
	b.matches = c.translate(record.RangeSet{{From: from, To: to}}, b.matches[:0])
	if len(b.matches) == 0 {
		return lo, lo
	}
	m := b.matches[0]
	first = c.lowerBound(lo, hi, m.low)
	if m.low+m.span == c.mask() {
		return first, hi
	}
	// A device has few rows in a sub-run: gallop from its first.
	end, step := first, 1
	for end+step < hi && c.packed(end+step) <= m.low+m.span {
		end += step
		step *= 2
	}
	return first, c.lowerBound(end, min(end+step, hi), m.low+m.span+1)
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
