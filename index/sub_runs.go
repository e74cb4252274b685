package index

import (
	"cmp"
	"math/bits"
	"slices"
)

// endsOfInstants finds where the sub-runs of a block end whose rows have few caps: after those of
// each. So devices are spread evenly over each, and what a search expects of them is right. Of
// other blocks it returns how many sub-runs there are, and sets no ends.
func endsOfInstants(items []item, ends *[subRuns]int) (subs int) {
	var caps, counts [subRuns]int64
	last := 0
	for i := range items {
		v := items[i].cap
		if caps[last] != v || counts[last] == 0 {
			for last = 0; last < subRuns && counts[last] > 0 && caps[last] != v; {
				last++
			}
			if last == subRuns {
				return subRuns
			}
			caps[last] = v
		}
		counts[last]++
	}
	for subs < subRuns && counts[subs] > 0 {
		for k := range caps {
			if counts[k] > 0 && caps[k] <= caps[subs] {
				ends[subs] += int(counts[k])
			}
		}
		subs++
	}
	slices.Sort(ends[:subs])
	return subs
}

// subRunsOf returns how many sub-runs a block has: as many as there can be, or one where series
// have enough readings in it to be read as runs. The items are sorted by series.
func subRunsOf(items []item) int {
	series := uint32(1)
	for i := 1; i < len(items); i++ {
		it, before := &items[i], &items[i-1]
		_, other := bits.Sub32(0, it.mid^before.mid|it.pair^before.pair, 0)
		series += other
	}
	readings := len(items) / int(series)
	if readings >= longRun || readings >= alignedRun && shareInstants(items) {
		return 1
	}
	return subRuns
}

// shareInstants reports whether the items have few caps.
func shareInstants(items []item) bool {
	var caps [instantSamples]int64
	step := max(1, len(items)/instantSamples)
	for i := range caps {
		caps[i] = items[min(anyOf(i*len(items)/instantSamples, step), len(items)-1)].cap
	}
	slices.Sort(caps[:])
	return len(slices.Compact(caps[:])) <= instantSamples/instantShare
}

// positionBits are those of a position in a block.
const positionBits = 13

// bySubRun returns the items of a block with those of the first sub-run first, and so on, in the
// order that they have. The ends of the sub-runs are given.
func (c *Clusterer) bySubRun(items []item, ends []int) []item {
	if len(ends) == 1 {
		return items
	}
	keys := c.capsAndPositions(items)
	multiSelect(keys, 0, ends[:len(ends)-1])
	var next [subRuns]int
	from := 0
	for sub, end := range ends {
		for _, key := range keys[from:end] {
			c.subOf[key&(1<<positionBits-1)] = uint8(sub)
		}
		next[sub], from = from, end
	}
	c.spare = emptied(c.spare, len(items))
	out := c.spare[:len(items)]
	for i := range items {
		sub := c.subOf[i] & (subRuns - 1)
		out[next[sub]] = items[i]
		next[sub]++
	}
	return out
}

// capsAndPositions returns numbers that are in the order of the caps of a block, those of one cap
// in the order of the rows, whose positions are their lowest bits.
func (c *Clusterer) capsAndPositions(items []item) []uint64 {
	lo, hi := items[0].cap, items[0].cap
	for i := range items {
		lo, hi = min(lo, items[i].cap), max(hi, items[i].cap)
	}
	c.keys = emptied(c.keys, len(items))[:len(items)]
	if bits.Len64(uint64(hi)-uint64(lo))+positionBits <= 64 {
		for i := range items {
			c.keys[i] = (uint64(items[i].cap)-uint64(lo))<<positionBits | uint64(i)
		}
		return c.keys
	}
	for i := range c.keys {
		c.keys[i] = uint64(i)
	}
	slices.SortStableFunc(c.keys, func(a, b uint64) int {
		return cmp.Compare(items[a].cap, items[b].cap)
	})
	for i, at := range c.keys {
		c.keys[i] = uint64(i)<<positionBits | at
	}
	return c.keys
}
