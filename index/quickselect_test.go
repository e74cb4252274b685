package index

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSelectNth holds selecting against sorting.
func TestSelectNth(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 400 {
		keys := make([]uint64, 1+rng.IntN(300))
		span := 1 + rng.Uint64N(1<<rng.IntN(12))
		for i := range keys {
			keys[i] = rng.Uint64N(span)
		}
		if rng.IntN(4) == 0 {
			slices.Sort(keys)
		}
		if rng.IntN(8) == 0 {
			keys[rng.IntN(len(keys))] = math.MaxUint64
		}
		checkSelect(t, keys, rng.IntN(len(keys)+1))
	}
	for _, size := range []int{100, 1000, 4000} {
		checkSelect(t, hostileKeys(size), size/2)
	}
}

func checkSelect(t *testing.T, keys []uint64, n int) {
	t.Helper()
	got, sorted := slices.Clone(keys), slices.Sorted(slices.Values(keys))
	selectNth(got, n)
	if n < len(got) && got[n] != sorted[n] {
		t.Fatalf("%d of keys %d: got %d, want %d", n, keys, got[n], sorted[n])
	}
	for _, side := range [][2][]uint64{{got[:n], sorted[:n]}, {got[n:], sorted[n:]}} {
		slices.Sort(side[0])
		if !slices.Equal(side[0], side[1]) {
			t.Fatalf("%d of keys %d: the sides of the cut differ from those of sorting", n, keys)
		}
	}
}

// adversary answers comparisons so that whatever pivot is chosen turns out to be nearly the
// smallest: values are given out only when they are compared, in ascending order.
type adversary struct {
	keys      []uint64 // unset: not given out yet
	next      uint64
	candidate int
}

const unset = 1 << 32

func (a *adversary) less(x, y int) bool {
	if a.keys[x] == unset && a.keys[y] == unset {
		frozen := y
		if x == a.candidate {
			frozen = x
		}
		a.keys[frozen] = a.next
		a.next++
	}
	if a.keys[x] == unset {
		a.candidate = x
	} else if a.keys[y] == unset {
		a.candidate = y
	}
	return a.keys[x] < a.keys[y]
}

// hostileKeys returns keys on which selecting the middle by the median of the first, the middle
// and the last would take quadratic time.
func hostileKeys(size int) []uint64 {
	a := &adversary{keys: make([]uint64, size)}
	at := make([]int, size)
	for i := range at {
		a.keys[i], at[i] = unset, i
	}
	for lo, hi := 0, size; hi-lo > 1 && a.next < uint64(size/2); {
		p := []int{at[lo], at[lo+(hi-lo)/2], at[hi-1]}
		slices.SortFunc(p, func(x, y int) int {
			if a.less(x, y) {
				return -1
			}
			return 1
		})
		i, j := lo, hi-1
		for i <= j {
			for a.less(at[i], p[1]) {
				i++
			}
			for a.less(p[1], at[j]) {
				j--
			}
			if i <= j {
				at[i], at[j] = at[j], at[i]
				i, j = i+1, j-1
			}
		}
		if size/2 <= j {
			hi = j + 1
		} else {
			lo = i
		}
	}
	return a.keys
}

// BenchmarkSelectHostile would take thousands of comparisons per item if bad pivots had no end.
func BenchmarkSelectHostile(b *testing.B) {
	keys := hostileKeys(20_000)
	for b.Loop() {
		selectNth(slices.Clone(keys), len(keys)/2)
	}
	perRow(b, len(keys))
}
