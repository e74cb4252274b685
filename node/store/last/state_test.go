package last

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
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
				i := slices.IndexFunc(rows, func(x shownRow) bool {
					return x.position == uint64(r.at.row)
				})
				if i < 0 {
					t.Fatalf("n %d: the version of cap %d is missing", n, capNs)
				}
				key := record.Key{MID: 1, CapNs: capNs, AcqNs: r.acqNs}
				if got := l.key(rows[i]); got != key {
					t.Fatalf("n %d: the key of cap %d is %+v, want %+v", n, capNs, got, key)
				}
			}
		}
		if len(rows) != want || l.kept != want {
			t.Fatalf("n %d: %d rows, %d kept, want %d", n, len(rows), l.kept, want)
		}
	}
}
