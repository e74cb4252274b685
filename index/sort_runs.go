package index

import (
	"cmp"
	"math/bits"
	"slices"
)

func compareItems(a, b item) int {
	return cmp.Or(cmp.Compare(a.pair, b.pair),
		cmp.Compare(a.mid, b.mid), cmp.Compare(a.cap, b.cap), cmp.Compare(a.rank, b.rank))
}

// sortRun sorts a sub-run. Numbers sort several times as fast as items: where device and cap fit
// 64 bits together with the index, they are sorted at once, otherwise cap after device.
func (c *Clusterer) sortRun(items []item) {
	if len(items) < 2 {
		return
	}
	lo, hi, differ := items[0], items[0], uint64(0)
	for i := range items {
		it := &items[i]
		differ |= uint64(it.cap) ^ uint64(items[0].cap)
		lo.cap, hi.cap = min(lo.cap, it.cap), max(hi.cap, it.cap)
		lo.mid, hi.mid = min(lo.mid, it.mid), max(hi.mid, it.mid)
		lo.pair, hi.pair = min(lo.pair, it.pair), max(hi.pair, it.pair)
	}
	midBits := bits.Len32(hi.mid - lo.mid)
	seriesBits := bits.Len32(hi.pair-lo.pair) + midBits
	capZeros := bits.TrailingZeros64(differ) // of differences: six where clocks have milliseconds
	capBits := bits.Len64((uint64(hi.cap) - uint64(lo.cap)) >> capZeros)
	indexBits := bits.Len(uint(len(items) - 1))
	if seriesBits+indexBits > 64 {
		slices.SortFunc(items, compareItems)
		return
	}
	withCap := seriesBits+capBits+indexBits <= 64
	c.keys = c.keys[:0]
	for i := range items {
		it := &items[i]
		key := uint64(it.pair-lo.pair)<<midBits | uint64(it.mid-lo.mid)
		if withCap {
			key = key<<capBits | (uint64(it.cap)-uint64(lo.cap))>>capZeros
		}
		c.keys = append(c.keys, key<<indexBits|uint64(i))
	}
	keyBits := seriesBits + indexBits
	if withCap {
		keyBits += capBits
	}
	c.sorter.sort(c.keys, indexBits, keyBits)
	c.sorted = slices.Grow(c.sorted[:0], len(items))
	for _, key := range c.keys {
		c.sorted = append(c.sorted, items[key&(1<<indexBits-1)])
	}
	copy(items, c.sorted)
	c.sortTies(items, indexBits)
}

// sortTies brings items whose numbers tie into order: rows of one device, of one cap too when the
// caps are in the numbers.
func (c *Clusterer) sortTies(items []item, indexBits int) {
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && c.keys[to]>>indexBits == c.keys[from]>>indexBits {
			to++
		}
		if to-from > maxInBucket {
			slices.SortFunc(items[from:to], compareItems)
		} else {
			insertByCap(items[from:to])
		}
		from = to
	}
}

// insertByCap sorts a few items of one series.
func insertByCap(items []item) {
	for i := 1; i < len(items); i++ {
		it, k := items[i], i
		for ; k > 0; k-- {
			before := &items[k-1]
			if before.cap < it.cap || before.cap == it.cap && before.rank < it.rank {
				break
			}
			items[k] = *before
		}
		items[k] = it
	}
}
