package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortKeys compares with slices.Sort, for keys that spread evenly and for those that crowd.
func TestSortKeys(t *testing.T) {
	var s keySorter
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 100, 512, 1024, 4 * keyBuckets, 4*keyBuckets + 1} {
		for _, keyBits := range []int{1, 9, 10, 40, 63, 64} {
			for _, crowded := range []bool{false, true} {
				keys := make([]uint64, n)
				for i := range keys {
					keys[i] = rng.Uint64() >> (64 - keyBits)
					if crowded {
						keys[i] &= 0xff
					}
				}
				want := slices.Clone(keys)
				slices.Sort(want)
				if s.sort(keys, keyBits); !slices.Equal(keys, want) {
					t.Fatalf("%d keys of %d bits, crowded %v: not in order", n, keyBits, crowded)
				}
			}
		}
	}
}
