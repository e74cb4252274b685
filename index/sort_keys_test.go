package index

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortKeys compares with slices.Sort, for keys that spread evenly and those that crowd, with
// the index in their lowest bits and without.
func TestSortKeys(t *testing.T) {
	var s keySorter
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 2, 100, minByDigits, 1024, 4 * keyBuckets, 4*keyBuckets + 1, maxBlockRows}
	for _, n := range sizes {
		for _, keyBits := range []int{1, 9, 10, 20, 40, 63, 64} {
			for _, crowded := range []bool{false, true} {
				for _, indexBits := range []int{0, bits.Len(uint(n))} {
					if indexBits > keyBits {
						continue
					}
					keys := randomKeys(rng, n, indexBits, keyBits, crowded)
					want := slices.Clone(keys)
					slices.Sort(want)
					if s.sort(keys, indexBits, keyBits); !slices.Equal(keys, want) {
						t.Fatalf("%d keys of %d bits, %d of the index, crowded %v: not in order",
							n, keyBits, indexBits, crowded)
					}
				}
			}
		}
	}
}

// randomKeys returns keys whose lowest indexBits are their index.
func randomKeys(rng *rand.Rand, n, indexBits, keyBits int, crowded bool) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = rng.Uint64() >> (64 - keyBits)
		if crowded {
			keys[i] &= 0xff << indexBits & (1<<keyBits - 1)
		}
		if indexBits > 0 {
			keys[i] = keys[i]>>indexBits<<indexBits | uint64(i)
		}
	}
	return keys
}
