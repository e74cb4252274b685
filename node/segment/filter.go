package segment

import (
	"cmp"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

// match is a range of values in the packed domain of a column: low <= packed <= low + span.
type match struct{ low, span uint64 }

// translate turns a normalized set of ranges of values into ranges of packed values, leaving out
// what lies outside the column. all says that every value lies in the set.
func (c *column) translate(set record.RangeSet, dst []match) (matches []match, all bool) {
	switch c.kind {
	case columnDict:
		return c.translateDictionary(set, dst)
	case columnClock:
		return c.translateClock(set, dst)
	}
	base, greatest := int64(c.base), c.greatest()
	first := 0
	if len(set) > manyMatches {
		first = sort.Search(len(set), func(i int) bool { return set[i].To > base })
	}
	for _, r := range set[first:] {
		if r.To <= base || r.From >= r.To {
			continue
		}
		low := uint64(0)
		if r.From > base {
			low = uint64(r.From) - c.base
			low = low/c.gcd + min(low%c.gcd, 1)
		}
		if low > greatest {
			break // and so does what follows
		}
		high := min((uint64(r.To-1)-c.base)/c.gcd, greatest)
		if low <= high {
			dst = append(dst, match{low, high - low})
			all = all || low == 0 && high == greatest
		}
	}
	return dst, all || len(set) == 0
}

// translateDictionary is translate for a dictionary-encoded column.
func (c *column) translateDictionary(set record.RangeSet, dst []match) (matches []match, all bool) {
	entries := len(c.dict) / 8
	near := set
	if entries > 0 && len(set) > manyMatches {
		near = set.Near(c.entry(0), c.entry(uint64(entries-1)))
	}
	for _, r := range near {
		low := sort.Search(entries, func(i int) bool { return c.entry(uint64(i)) >= r.From })
		end := sort.Search(entries, func(i int) bool { return c.entry(uint64(i)) >= r.To })
		if low < end {
			dst = append(dst, match{uint64(low), uint64(end - low - 1)})
			all = all || low == 0 && end == entries
		}
	}
	return dst, all || len(set) == 0
}

// FilterSpan appends to sel the positions in [lo, hi) whose value of a dimension lies in a
// normalized set, in ascending order. For [record.Acq] the values are ranks.
//
// Cost: about 1.4 ns a row for one range; no allocation when sel has space.
func (b *Block) FilterSpan(
	d record.Dim, set record.RangeSet, lo, hi int, sel []uint32,
) []uint32 {
	if b.runs.count > 0 {
		return b.filterRuns(d, set, lo, hi, sel)
	}
	if b.hasSubRuns(d) {
		return b.filterSubRuns(d, set, lo, hi, sel)
	}
	return b.filterColumn(&b.keys[d], set, lo, hi, sel)
}

// filterColumn is FilterSpan for a column.
func (b *Block) filterColumn(
	c *column, set record.RangeSet, lo, hi int, sel []uint32,
) []uint32 {
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

// Filter keeps those positions of sel whose value of a dimension lies in a normalized set, in
// place. For [record.Acq] the values are ranks.
func (b *Block) Filter(d record.Dim, set record.RangeSet, sel []uint32) []uint32 {
	if b.runs.count > 0 {
		return b.filterRunsSelected(d, set, sel)
	}
	if b.hasSubRuns(d) {
		return b.filterSubRunsSelected(d, set, sel)
	}
	return b.filterSelected(&b.keys[d], set, sel)
}

// filterSelected is Filter for a column.
func (b *Block) filterSelected(c *column, set record.RangeSet, sel []uint32) []uint32 {
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

// MIDs is a range of devices as a block stores them.
type MIDs struct {
	low, last uint64 // packed values
	none, all bool
	// Shares of the rows of a sub-run below low and up to last, when ids are spread evenly.
	share, end float64
}

// FindMIDs translates the range [from, to) of devices for searches in the block. greatest is about
// that of its devices: searches start where the range must lie when ids are spread evenly.
func (b *Block) FindMIDs(from, to, greatest int64) MIDs {
	set := [1]record.Range{{From: from, To: to}}
	var all bool
	b.matches, all = b.keys[record.MID].translate(set[:], b.matches[:0])
	if all || len(b.matches) == 0 {
		return MIDs{all: all, none: !all}
	}
	m := b.matches[0]
	c := &b.keys[record.MID]
	width := float64(len(c.dict) / 8)
	if c.kind != columnDict {
		width = float64(uint64(greatest)-c.base)/float64(c.gcd) + 1
	}
	last := m.low + m.span
	return MIDs{low: m.low, last: last, share: min(1, float64(m.low)/width),
		end: min(1, float64(last+1)/width)}
}

// nearRows is within how many rows of its start the end of a range is looked for from there.
const nearRows = 16

// SearchMIDs returns the positions in [lo, hi) of the devices, where the rows of [lo, hi) are
// sorted by mid, as those of a sub-run with one cid and moid are.
//
// Cost: some 20 ns; a few loads near where the devices must lie, when ids are spread evenly.
func (b *Block) SearchMIDs(lo, hi int, m MIDs) (first, end int) {
	if m.all {
		return lo, hi
	}
	if m.none || lo == hi {
		return lo, lo
	}
	if b.runs.count > 0 {
		return b.searchRuns(lo, hi, m)
	}
	c, rows := &b.keys[record.MID], float64(hi-1-lo)
	first = c.search(lo, hi, m.low, lo+int(m.share*rows))
	if m.last == c.greatest() || first == hi {
		return first, hi
	}
	if at := lo + int(m.end*rows); at > first+nearRows {
		return first, c.search(first, hi, m.last+1, at)
	}
	return first, c.endOf(first, hi, m.last)
}

// endOf returns the first position in [from, hi) with a packed value above v, or hi, looking near
// from first.
func (c *column) endOf(from, hi int, v uint64) int {
	step := 1
	for ; from+step < hi && c.packed(from+step) <= v; step *= 2 {
		from += step
	}
	return c.lowerBound(from, min(from+step, hi), v+1)
}

// search returns the first position in [lo, hi) with a packed value of at least v, or hi, looking
// around at first.
func (c *column) search(lo, hi int, v uint64, at int) int {
	step := 4
	if c.packed(at) < v {
		lo = at + 1
		for ; lo+step < hi && c.packed(lo+step) < v; step *= 4 {
			lo += step + 1
		}
		return c.lowerBound(lo, min(lo+step, hi), v)
	}
	hi = at
	for ; hi-step > lo && c.packed(hi-step) >= v; step *= 4 {
		hi -= step
	}
	return c.lowerBound(max(hi-step, lo), hi, v)
}

// lowerBound is search by halves.
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

// sortedBy are the dimensions that the rows of a sub-run are sorted by.
var sortedBy = [...]record.Dim{record.CID, record.MOID, record.MID, record.Cap}

// SearchReading returns the positions in [lo, hi) of the rows of a reading, where the rows of
// [lo, hi) are sorted by tenant, quantity, device and cap, as those of a sub-run are.
//
// Cost: some 20 packed values are looked at, 0.1 us.
func (b *Block) SearchReading(lo, hi int, k record.Key) (first, end int) {
	if b.runs.count > 0 {
		return b.searchReadingInRuns(lo, hi, k)
	}
	for _, d := range sortedBy {
		c := &b.keys[d]
		if b.hasSubRuns(d) && lo < hi {
			c, _ = b.enter(d, lo)
		}
		v, ok := c.pack(k.Part(d))
		if lo == hi || !ok {
			return lo, lo
		}
		if c.width == 0 {
			continue
		}
		lo = c.lowerBound(lo, hi, v)
		if v < c.greatest() {
			hi = c.endOf(lo, hi, v)
		}
	}
	return lo, hi
}

// pack returns the packed value of a value of a key column, if the column can have it.
func (c *column) pack(v int64) (packed uint64, ok bool) {
	if c.kind == columnDict {
		i, ok := sort.Find(len(c.dict)/8, func(i int) int {
			return cmp.Compare(v, c.entry(uint64(i)))
		})
		return uint64(i), ok
	}
	if c.kind == columnClock {
		return c.packOnClock(v)
	}
	above := uint64(v) - c.base
	packed = above / c.gcd
	return packed, v >= int64(c.base) && packed*c.gcd == above && packed <= c.greatest()
}
