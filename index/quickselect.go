package index

import (
	"cmp"
	"math/bits"
	"slices"
)

// sampledSelect is how many items make it pay to look for the pivot among a sample of them.
const sampledSelect = 512

// selectNth reorders items so that those before n have keys no greater than those from n on.
// Equal keys are told apart by rank, which makes the outcome a matter of the rows alone.
//
// Cost: about one and a half passes, and no branch that depends on a key.
func selectNth(items []item, n int) {
	lo, hi := 0, len(items)
	// Writers choose caps, and could choose them so that every pivot is a bad one.
	rounds := 3 * bits.Len(uint(len(items)))
	for hi-lo > 1 && n > lo && n < hi {
		if rounds--; rounds < 0 {
			slices.SortFunc(items[lo:hi], compareKeys)
			return
		}
		at := lo + partition(items[lo:hi], pivotFor(items[lo:hi], n-lo))
		switch {
		case n < at:
			hi = at
		case n > at:
			lo = at + 1
		default:
			return
		}
	}
}

// pivotFor returns the position of an item that about n of the items are below of: a little more
// where n is in the first half, and a little fewer elsewhere, so that few are left to select from.
func pivotFor(items []item, n int) int {
	size := len(items)
	if size < sampledSelect {
		return medianOf(items, 0, size/2, size-1)
	}
	// The sample is moved to the front; its rank is off by about the square root of its size.
	sample := size >> (bits.Len(uint(size)) / 3)
	step := size / sample
	for i := range sample {
		from := anyOf(i*step, step)
		items[i], items[from] = items[from], items[i]
	}
	at, margin := int(int64(n)*int64(sample)/int64(size)), 1<<(bits.Len(uint(sample))/2)
	if n < size/2 {
		margin = -margin
	}
	at = min(max(at-margin, 0), sample-1)
	selectNth(items[:sample], at)
	return at
}

// partition reorders items so that those below the item at a position come first, then that one,
// and returns where it is then.
func partition(items []item, pivot int) int {
	last := len(items) - 1
	items[pivot], items[last] = items[last], items[pivot]
	key, rank := items[last].key, uint64(items[last].rank)
	k := 0
	for i := range items[:last] {
		it := items[i]
		_, below := bits.Sub64(uint64(it.rank), rank, 0)
		_, below = bits.Sub64(it.key, key, below)
		items[i] = items[k]
		items[k] = it
		k += int(below)
	}
	items[k], items[last] = items[last], items[k]
	return k
}

// multiSelect reorders items so that none before one of the ends has a greater key than those
// behind it. The items begin at from, and the ends lie between them, ascending.
func multiSelect(items []item, from int, ends []int) {
	if len(ends) == 0 {
		return
	}
	middle := len(ends) / 2
	at := ends[middle] - from
	selectNth(items, at)
	multiSelect(items[:at], from, ends[:middle])
	multiSelect(items[at:], ends[middle], ends[middle+1:])
}

func less(a, b *item) bool { return a.key < b.key || a.key == b.key && a.rank < b.rank }

func compareKeys(a, b item) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.rank, b.rank))
}

// medianOf returns which of three positions has the middle one of their items.
func medianOf(items []item, a, b, c int) int {
	if less(&items[b], &items[a]) {
		a, b = b, a
	}
	if less(&items[c], &items[b]) {
		b = c
		if less(&items[b], &items[a]) {
			b = a
		}
	}
	return b
}
