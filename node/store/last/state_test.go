package last

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
)

// TestLastState holds what the state keeps of one series against everything that it was told.
func TestLastState(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		n := 1 + rng.IntN(5)
		var l state
		l.reset(n, 1<<20)
		number := l.announce(index.Series{MID: 1})
		l.settle()
		best := map[int64]rowState{}
		for acq := range int64(200) { // newer versions come later, as in descending order they may
			r := rowState{capNs: rng.Int64N(40), acqNs: acq, at: rowAt{row: uint32(acq)}}
			if err := l.add(number, r, true); err != nil {
				t.Fatal(err)
			}
			best[r.capNs] = r
		}
		want := 0
		rows := l.shownRows(1)[0]
		for capNs := int64(39); capNs >= 0 && want < n; capNs-- {
			if r, ok := best[capNs]; ok {
				want++
				if !slices.Contains(rows, uint64(r.at.row)) {
					t.Fatalf("n %d: the version of cap %d is missing", n, capNs)
				}
			}
		}
		if len(rows) != want || l.kept != want {
			t.Fatalf("n %d: %d rows, %d kept, want %d", n, len(rows), l.kept, want)
		}
	}
}
