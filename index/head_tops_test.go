package index

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestEdge holds the rows of a chunk around a cap, and its counts, against a look at each row, with
// caps that come nearly in their order, in no order, and at the ends of what there is.
func TestEdge(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		caps := randomCaps(rng)
		c := &cell{}
		z, k := &zone{caps: Bound{caps[0], caps[0]}}, &chunk{}
		if rng.IntN(4) > 0 {
			k.tops = new(tops)
		}
		for _, capNs := range caps {
			k.note(z, capNs)
			k.rows = append(k.rows, entry{cap: capNs})
		}
		a, b := randomCap(rng, caps), randomCap(rng, caps)
		if a == b {
			continue // no box has a range without values
		}
		box := record.RangeSet{{From: min(a, b), To: max(a, b)}}
		lo, hi := k.edge(z, a)
		for i, capNs := range caps {
			if i < lo && capNs >= a || i >= hi && capNs < a {
				t.Fatalf("%d lies between %d and %d of %v", a, lo, hi, caps)
			}
		}
		if k.tops != nil && slices.IsSorted(caps) && hi-lo > topRows {
			t.Fatalf("%d rows, from %d to %d, are looked at for %d in %v", hi-lo, lo, hi, a, caps)
		}
		lo, hi = k.near(z, box)
		want := 0
		for i, capNs := range caps {
			if box.Contains(capNs) {
				if want++; i < lo || i >= hi {
					t.Fatalf("row %d is not from %d to %d, for %v in %v", i, lo, hi, box, caps)
				}
			}
		}
		if got := c.countBetween(box, z, k); got != want {
			t.Fatalf("%d rows, want %d, of %v in %v", got, want, box, caps)
		}
	}
}

func randomCaps(rng *rand.Rand) []int64 {
	disorder := []int64{1, 5, 1000, math.MaxInt64}[rng.IntN(4)]
	caps := make([]int64, 1+rng.IntN(chunkRows))
	next := rng.Int64N(1000) - 500
	for i := range caps {
		next += rng.Int64N(10)
		if caps[i] = next - rng.Int64N(disorder); disorder == math.MaxInt64 {
			caps[i] = int64(rng.Uint64())
		}
		if rng.IntN(500) == 0 {
			caps[i] = []int64{math.MinInt64, math.MaxInt64}[rng.IntN(2)]
		}
	}
	return caps
}

func randomCap(rng *rand.Rand, caps []int64) int64 {
	switch rng.IntN(20) {
	case 0:
		return math.MinInt64
	case 1:
		return math.MaxInt64
	case 2:
		return int64(rng.Uint64())
	}
	return caps[rng.IntN(len(caps))] + rng.Int64N(3) - 1
}
