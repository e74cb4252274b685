package index

import (
	"math/bits"
	"slices"
)

// sampledSelect is how many keys make it pay to look for the pivot among a sample of them.
const sampledSelect = 512

// selectNth reorders keys so that those before n are no greater than those from n on, of which the
// first is the least.
//
// Cost: about one and a half passes, and no branch that depends on a key.
func selectNth(keys []uint64, n int) {
	lo, hi := 0, len(keys)
	// Writers choose caps, and could choose them so that every pivot is a bad one.
	rounds := 4 * bits.Len(uint(len(keys)))
	for hi-lo > 1 && n >= lo && n < hi {
		if rounds--; rounds < 0 {
			slices.Sort(keys[lo:hi])
			return
		}
		pivot := pivotFor(keys[lo:hi], n-lo)
		at := lo + partition(keys[lo:hi], pivot)
		if at == lo { // none is less than the pivot, so those that equal it come next
			if at = hi; pivot+1 != 0 {
				at = lo + partition(keys[lo:hi], pivot+1)
			}
			if n < at {
				return
			}
		}
		if n < at {
			hi = at
		} else {
			lo = at
		}
	}
}

// pivotFor returns a key that about n of the keys are below of: a little more where n is in the
// first half, and a little fewer elsewhere, so that few are left to select from.
func pivotFor(keys []uint64, n int) uint64 {
	size := len(keys)
	if size < sampledSelect {
		return medianOf(keys[0], keys[size/2], keys[size-1])
	}
	// The sample is moved to the front; its rank is off by about the square root of its size.
	sample := size >> (bits.Len(uint(size)) / 3)
	step := size / sample
	for i := range sample {
		from := anyOf(i*step, step)
		keys[i], keys[from] = keys[from], keys[i]
	}
	at, margin := int(int64(n)*int64(sample)/int64(size)), 1<<(bits.Len(uint(sample))/2)
	if n < size/2 {
		margin = -margin
	}
	at = min(max(at-margin, 0), sample-1)
	selectNth(keys[:sample], at)
	return keys[at]
}

// partition reorders keys so that those below a number come first, and returns how many these are.
func partition(keys []uint64, number uint64) int {
	k := 0
	for i, key := range keys {
		_, below := bits.Sub64(key, number, 0)
		keys[i] = keys[k]
		keys[k] = key
		k += int(below)
	}
	return k
}

// multiSelect reorders keys so that none before one of the ends is greater than those behind it.
// The keys begin at from, and the ends lie between them, ascending.
func multiSelect(keys []uint64, from int, ends []int) {
	if len(ends) == 0 {
		return
	}
	middle := len(ends) / 2
	at := ends[middle] - from
	selectNth(keys, at)
	multiSelect(keys[:at], from, ends[:middle])
	multiSelect(keys[at:], ends[middle], ends[middle+1:])
}

func medianOf(a, b, c uint64) uint64 { return max(min(a, b), min(max(a, b), c)) }
