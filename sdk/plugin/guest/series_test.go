package guest

import (
	"math/rand/v2"
	"testing"
)

// TestNextSeries compares the rows of one group and one series with what columns say of each row,
// for random batches in all forms.
func TestNextSeries(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var b Batch
		b.Rows = 1 + rng.IntN(50)
		for from := 0; from < b.Rows; {
			s := Series{MID: rng.Int64N(3) - 1, CID: rng.Int32N(2), MOID: rng.Int32N(2)}
			for end := min(b.Rows, from+1+rng.IntN(9)); from < end; from++ {
				b.MID, b.CID = append(b.MID, s.MID), append(b.CID, s.CID)
				b.MOID = append(b.MOID, s.MOID)
			}
			s.End = uint64(from)
			b.Series = append(b.Series, s)
		}
		for from := 0; from < b.Rows; {
			r := Run{GID: rng.Uint32N(3)}
			for end := min(b.Rows, from+1+rng.IntN(9)); from < end; from++ {
				b.GID = append(b.GID, r.GID)
			}
			r.End = uint32(from)
			b.Runs = append(b.Runs, r)
		}
		all := b
		if rng.IntN(2) == 0 {
			b.MID, b.CID, b.MOID = nil, nil, nil
		} else {
			b.Series = nil
		}
		if rng.IntN(2) == 0 {
			b.GID = nil
		} else {
			b.Runs = nil
		}
		at := 0
		for r := (SeriesRows{}); b.NextSeries(&r); at = r.To {
			if r.From != at || r.To <= at || r.To > b.Rows {
				t.Fatalf("rows %d to %d of %d after %d", r.From, r.To, b.Rows, at)
			}
			for i := r.From; i < r.To; i++ {
				if r.GID != all.GID[i] || r.MID != all.MID[i] || r.CID != all.CID[i] ||
					r.MOID != all.MOID[i] {
					t.Fatalf("row %d is in %+v", i, r)
				}
			}
		}
		if at != b.Rows {
			t.Fatalf("%d of %d rows", at, b.Rows)
		}
	}
}
