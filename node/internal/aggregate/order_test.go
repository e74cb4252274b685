package aggregate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestOrderOfKeys sorts the keys of random groups, of which many are dense and some are at both
// ends of what numbers hold, and compares the order with that of their comparison.
func TestOrderOfKeys(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	packed := 0
	for range 300 {
		by, cal := randomGroupBy(t, rng)
		b := randomKeys(rng, by)
		if rng.IntN(2) == 0 {
			b = denseKeys(rng)
		}
		g := NewGroupTable(by, cal, nil, 1<<20)
		if rng.IntN(8) == 0 {
			g.predecessors = true
		}
		if _, err := g.AppendRuns(&b, nil); err != nil {
			t.Fatal(err)
		}
		if packedOrder(g.keys, by) != nil {
			packed++
		}
		order := orderOf(g.keys, by)
		seen := slices.Sorted(slices.Values(order))
		for n := range order {
			if seen[n] != n {
				t.Fatalf("%+v: index %d is missing in %v", by, n, order)
			}
			if n > 0 && g.keys[order[n-1]].compare(g.keys[order[n]]) >= 0 {
				t.Fatalf("%+v: %+v comes before %+v", by, g.keys[order[n-1]], g.keys[order[n]])
			}
		}
	}
	if packed < 50 {
		t.Errorf("%d of 300 are packed", packed)
	}
}

// denseKeys makes rows of neighbouring devices in a year.
func denseKeys(rng *rand.Rand) (b record.Batch) {
	for range 1 + rng.IntN(3000) {
		b.Append(record.Key{CID: rng.Int32N(2), MID: rng.Int64N(50) - 20, MOID: -rng.Int32N(3),
			CapNs: 1767222000e9 + rng.Int64N(365*86400e9)}, nil)
	}
	return b
}
