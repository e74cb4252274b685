package index

import (
	"cmp"
	"math/bits"
	"slices"
)

// selectNth reorders items so that those before n have keys no greater than those from n on.
// Equal keys are told apart by rank, which makes the outcome a matter of the rows alone.
func selectNth(items []item, n int) {
	lo, hi := 0, len(items)
	// Writers choose caps, and could choose them so that every pivot is a bad one.
	rounds := 3 * bits.Len(uint(len(items)))
	for hi-lo > 1 && n > lo && n < hi {
		if rounds--; rounds < 0 {
			slices.SortFunc(items[lo:hi], compareKeys)
			return
		}
		pivot := median(items[lo], items[lo+(hi-lo)/2], items[hi-1])
		i, j := lo, hi-1
		for i <= j {
			for less(&items[i], &pivot) {
				i++
			}
			for less(&pivot, &items[j]) {
				j--
			}
			if i <= j {
				items[i], items[j] = items[j], items[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			hi = j + 1
		case n >= i:
			lo = i
		default:
			return
		}
	}
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

func median(a, b, c item) item {
	if less(&b, &a) {
		a, b = b, a
	}
	if less(&c, &b) {
		b = c
		if less(&b, &a) {
			b = a
		}
	}
	return b
}
