package versions

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestDivisionsAreFew: zones that lie across each other in both dimensions, as those of readings
// with outlying times, are not divided into more parts than reading the rows would take.
func TestDivisionsAreFew(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	span := func(wide int64) index.Bound {
		from := rng.Int64N(1 << 40)
		return index.Bound{Min: from, Max: from + rng.Int64N(wide)}
	}
	for _, wide := range []int64{1, 1 << 30, 1 << 38, 1 << 40, 1 << 62} {
		const flagged, limit = 100, 2000
		var zones []index.FlaggedZone
		for range 500 {
			zones = append(zones,
				index.FlaggedZone{Flagged: flagged, MID: span(wide), Cap: span(wide)})
		}
		all := index.Bound{Min: math.MinInt64, Max: math.MaxInt64}
		parts, fit := countParts(zones, all, all, limit, 2000)
		t.Logf("spans of %d: %d parts, %d of them fit", wide, parts, fit)
		if parts >= 2000 || wide == 1 && (fit != parts || parts > 100) {
			t.Errorf("spans of %d: %d parts, %d of them fit", wide, parts, fit)
		}
	}
}

// countParts divides zones until they fit a limit or cannot be divided, and counts the parts, up to
// most.
func countParts(
	zones []index.FlaggedZone, mid, capNs index.Bound, limit, most int,
) (parts, fit int) {
	total := 0
	for _, z := range zones {
		total += z.Flagged
	}
	if total <= limit {
		return 1, 1
	}
	d, at, ok := divideZones(zones, mid, capNs)
	if !ok {
		return 1, 0
	}
	for _, below := range []bool{true, false} {
		m, c := mid, capNs
		b := &m
		if d == record.Cap {
			b = &c
		}
		if below {
			b.Max = at - 1
		} else {
			b.Min = at
		}
		var in []index.FlaggedZone
		for _, z := range zones {
			if overlap(z.MID, m) && overlap(z.Cap, c) {
				in = append(in, z)
			}
		}
		if parts < most {
			n, f := countParts(in, m, c, limit, most-parts)
			parts, fit = parts+n, fit+f
		}
	}
	return parts, fit
}

func overlap(a, b index.Bound) bool { return a.Min <= b.Max && b.Min <= a.Max }
