package versions

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestNewest holds the table of versions against a map, and fills it.
func TestNewest(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	n := NewTable(5000)
	known := map[Reading]int64{}
	var b record.Batch
	for i := range 20_000 {
		b.AppendStamped(record.Key{CID: int32(rng.IntN(3)), MID: rng.Int64N(50),
			MOID: int32(rng.IntN(3)), CapNs: rng.Int64N(50), AcqNs: rng.Int64N(1000)}, nil)
		r := Reading{b.CID[i], b.MOID[i], b.MID[i], b.CapNs[i]}
		acqNs, had := known[r]
		if n.Supersedes(b.Key(i)) != (had && acqNs > b.AcqNs[i]) {
			t.Fatalf("row %d: hides is wrong", i)
		}
		known[r] = max(acqNs, b.AcqNs[i])
		err := n.Add(&b, i)
		if full := !had && len(known) > 5000; full != (err != nil) || n.count != len(known) {
			t.Fatalf("row %d: %d readings of %d: %v", i, n.count, len(known), err)
		}
	}
	if n.count <= 5000 {
		t.Fatalf("%d readings", n.count)
	}
}
