package segment

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// fleet makes rows of devices that mostly have some in each sub-run of a block.
func fleet(rng *rand.Rand, rows int) *SealedInput {
	devices := 1 + rng.IntN(1+min(rows/3, []int{3, 70, 500, maxBlockRows}[rng.IntN(4)]))
	of := anyGenerator(rng)
	mids := make([]int64, devices)
	for i := range mids {
		mids[i] = of(rng)
	}
	if rng.IntN(2) == 0 { // ids that are close
		base, step := of(rng), 1+rng.Int64N(20)
		for i := range mids {
			mids[i] = base + int64(i)*step
		}
	}
	if rng.IntN(8) == 0 {
		mids = append(mids, math.MinInt64, math.MaxInt64)
	}
	caps := anyGenerator(rng)
	if rng.IntN(2) == 0 {
		slots, jitter := 1+rng.Int64N(100), 1+rng.Int64N(5000)
		caps = func(rng *rand.Rand) int64 {
			return 1.7e18 + rng.Int64N(slots)*int64(15*time.Minute) + rng.Int64N(jitter)*1e6
		}
	}
	b := &record.Batch{}
	seldom := 1 + rng.IntN(len(mids)) // devices from here on have few rows
	for range rows {
		k := record.Key{CID: 1, MOID: 2, MID: mids[rng.IntN(len(mids))], CapNs: caps(rng)}
		if rng.IntN(20) > 0 {
			k.MID = mids[rng.IntN(seldom)]
		}
		b.Append(k, appendWords(nil, uint64(rng.IntN(1000))))
	}
	in := inputOf(rng, b)
	sortSubRuns(rng, in)
	return in
}

// Blocks with sub-runs are written, read back, filtered and searched as others are.
func TestSubRunsModel(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	tables, clocks, several := 0, 0, 0
	for range 250 {
		in := fleet(rng, 1+rng.IntN(1<<rng.IntN(15)))
		checkModel(t, rng, in, func(b *Block, order []uint32) {
			table := &b.subRuns
			if table.count == 0 {
				return
			}
			tables++
			several += min(table.count-1, 1)
			if b.keys[record.Cap].kind == columnClock {
				clocks++
				checkCaps(t, rng, in, b, order)
			}
			checkKeys(t, in, b, order)
			for range 5 {
				checkFilters(t, rng, in, b, order)
				checkSearches(t, rng, in, b, order)
				gatherSome(t, rng, in, b, order, &record.Batch{}, nil)
			}
		})
	}
	if tables < 30 || clocks < 5 || several < 15 {
		t.Errorf("%d blocks with sub-runs, %d with several, %d with clocks", tables, several,
			clocks)
	}
}
