package hedge

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHedgesAreFew(t *testing.T) {
	var h Limiter
	given := 0
	for range 2000 {
		h.Earn()
		if h.Take() {
			given++
		}
	}
	if given < 100 || given > 100+hedgeBurst {
		t.Errorf("%d of 2000 queries may be asked of a second node", given)
	}
}

// TestLatencyHistogram against a sorted list.
func TestLatencyHistogram(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		var u Latency
		var all []time.Duration
		scale := math.Exp(rng.Float64() * 25)
		for range 1 + rng.IntN(halveAt-1) {
			took := time.Duration(scale * math.Exp(rng.NormFloat64()))
			u.Add(took)
			all = append(all, took)
		}
		slices.Sort(all)
		got, known := u.p95()
		if known != (len(all) >= minSamples) {
			t.Fatalf("known %v after %d", known, len(all))
		}
		want := min(max(all[len(all)-1-len(all)/20], 2), maxLatency)
		if known && (got <= want || got > want+want/2+1) {
			t.Fatalf("p95 of %d is %v, want %v", len(all), got, want)
		}
		for range 4 * halveAt { // later ones count more
			u.Add(time.Second)
		}
		if got, _ := u.p95(); got < time.Second || got > 1500*time.Millisecond {
			t.Fatalf("then p95 is %v", got)
		}
	}
	soon, late := NewLimiter().Delay(new(Latency))
	if soon != firstHedgeDelay || late != maxHedgeDelay {
		t.Errorf("hedge delays of a node without samples: %v, %v", soon, late)
	}
}
