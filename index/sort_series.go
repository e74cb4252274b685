package index

import (
	"cmp"
	"math/bits"
	"slices"
)

const (
	// deviceDigitBits is how many bits of devices one pass sorts by at most, so that what it
	// writes to stays in the caches.
	deviceDigitBits = 11
	// maxInserted is how many items are sorted by insertion.
	maxInserted = 24
	// rowsPerBucket: a pass pays where there is a row for this many of its buckets.
	rowsPerBucket = 8
)

// bySeries lists the rows of the pairs [lo, hi) of a group, sorted by tenant, quantity, device, cap
// and rank. All that is done with items later keeps this order, so that those of a sub-run need not
// be sorted again.
//
// Rows of a series mostly come in the order of their caps, in a head as in blocks that a merge
// reads one after another: then only devices are sorted.
func (c *Clusterer) bySeries(g *rowsByPair, lo, hi int) []item {
	first := g.starts[lo]
	items := emptied(c.items, int(g.starts[hi]-first))[:g.starts[hi]-first]
	c.items = items
	for pair := lo; pair < hi; pair++ {
		from, to := g.starts[pair], g.starts[pair+1]
		of := items[from-first : to-first]
		for i, row := range g.order[from:to] {
			of[i] = item{cap: c.rows.CapNs[row], mid: c.midOf[row], rank: c.rankOf(row), row: row,
				pair: uint32(pair)}
		}
		c.sortByDevice(of)
	}
	c.sortEachSeries(items)
	return items
}

// sortByDevice sorts items of one pair by device, and keeps the order of those of one device.
//
// Cost: about 4 ns an item and pass, one for a few hundred devices.
func (c *Clusterer) sortByDevice(items []item) {
	if len(items) < 2 {
		return
	}
	lo, hi, inOrder := items[0].mid, items[0].mid, true
	for i := 1; i < len(items); i++ {
		mid := items[i].mid
		inOrder = inOrder && items[i-1].mid <= mid
		lo, hi = min(lo, mid), max(hi, mid)
	}
	width := bits.Len32(hi - lo)
	passes := (width + deviceDigitBits - 1) / deviceDigitBits
	digit := (width + passes - 1) / max(1, passes)
	switch {
	case inOrder:
		return
	case len(items) <= maxInserted:
		insertInOrder(items)
		return
	case len(items) < 1<<digit/rowsPerBucket:
		slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.mid, b.mid) })
		return
	}
	c.spare = emptied(c.spare, len(items))
	from, to := items, c.spare[:len(items)]
	for shift := 0; shift < width; shift += digit {
		c.sortByDigit(from, to, lo, shift, 1<<digit-1)
		from, to = to, from
	}
	if passes%2 != 0 {
		copy(items, from)
	}
}

// sortByDigit sorts items by some bits of their devices, and keeps the order otherwise.
func (c *Clusterer) sortByDigit(from, to []item, lo uint32, shift int, mask uint32) {
	next := &c.counts
	clear(next[:mask+1])
	for i := range from {
		next[(from[i].mid-lo)>>shift&mask]++
	}
	at := uint32(0)
	for i, n := range next[:mask+1] {
		next[i] = at
		at += n
	}
	for i := range from {
		at := &next[(from[i].mid-lo)>>shift&mask]
		to[*at] = from[i]
		*at++
	}
}

// sortEachSeries sorts the rows of each series, where they are not in order, and notes the series.
func (c *Clusterer) sortEachSeries(items []item) {
	for from := 0; from < len(items); {
		first, to, inOrder := &items[from], from+1, true
		for ; to < len(items); to++ {
			it, before := &items[to], &items[to-1]
			if it.mid != first.mid || it.pair != first.pair {
				break
			}
			inOrder = inOrder && (before.cap < it.cap ||
				before.cap == it.cap && before.rank < it.rank)
		}
		switch {
		case inOrder:
		case to-from > maxInserted:
			slices.SortFunc(items[from:to], compareTimes)
		default:
			insertInOrder(items[from:to])
		}
		c.series = append(c.series, SeriesCap{Series{CID: c.cids[first.pair],
			MOID: c.moids[first.pair], MID: c.mids[first.mid]}, items[to-1].cap})
		from = to
	}
}

// Series returns the series of what was clustered last, and their greatest caps, in ascending
// order. The list belongs to the clusterer, until it clusters again.
func (c *Clusterer) Series() []SeriesCap {
	onTime, late := c.series[:c.onTime], c.series[c.onTime:]
	if len(late) == 0 {
		return c.series
	}
	all := make([]SeriesCap, 0, len(c.series))
	for len(onTime) > 0 && len(late) > 0 {
		order := onTime[0].Compare(late[0].Series)
		next := onTime[0]
		switch {
		case order > 0:
			next = late[0]
		case order == 0:
			next.MaxCapNs = max(next.MaxCapNs, late[0].MaxCapNs)
		}
		if order <= 0 {
			onTime = onTime[1:]
		}
		if order >= 0 {
			late = late[1:]
		}
		all = append(all, next)
	}
	c.series = append(append(all, onTime...), late...)
	c.onTime = len(c.series)
	return c.series
}

func compareTimes(a, b item) int {
	return cmp.Or(cmp.Compare(a.cap, b.cap), cmp.Compare(a.rank, b.rank))
}

// insertInOrder sorts a few items of one pair.
func insertInOrder(items []item) {
	for i := 1; i < len(items); i++ {
		it, k := items[i], i
		for ; k > 0; k-- {
			before := &items[k-1]
			if before.mid < it.mid || before.mid == it.mid && (before.cap < it.cap ||
				before.cap == it.cap && before.rank < it.rank) {
				break
			}
			items[k] = *before
		}
		items[k] = it
	}
}
