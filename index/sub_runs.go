package index

import "slices"

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
// have enough readings in it to be read as runs.
func (c *Clusterer) subRunsOf(items []item) int {
	if len(c.inBlock) < len(c.mids) {
		c.inBlock, c.inBlockMark = make([]uint32, len(c.mids)), 0
	}
	series := 0
	for i := range items {
		it := &items[i]
		if i == 0 || it.pair != items[i-1].pair {
			c.inBlockMark++
		}
		if c.inBlock[it.mid] != c.inBlockMark {
			c.inBlock[it.mid] = c.inBlockMark
			series++
		}
	}
	readings := len(items) / series
	if readings >= longRun || readings >= alignedRun && c.shareInstants(items) {
		return 1
	}
	return subRuns
}

// shareInstants reports whether the items have few caps.
func (c *Clusterer) shareInstants(items []item) bool {
	c.keys = c.keys[:0]
	for i := range instantSamples {
		c.keys = append(c.keys, uint64(items[i*len(items)/instantSamples].cap))
	}
	slices.Sort(c.keys)
	return len(slices.Compact(c.keys)) <= instantSamples/instantShare
}
