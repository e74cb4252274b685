package segment

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// crowd makes rows of many devices, whose ids are near to a line, in few stretches of a block.
func crowd(rng *rand.Rand, rows int) *SealedInput {
	of := anyGenerator(rng)
	base, gap := of(rng), 1+rng.Int64N(1+rng.Int64N(40))
	scale := []int64{1, 1, 1, 1000, 1 << 40}[rng.IntN(5)]
	mids := make([]int64, 1+rng.IntN(rows))
	for i := range mids {
		base += scale * (1 + rng.Int64N(gap))
		mids[i] = base // beyond the greatest, the least follows
	}
	if rng.IntN(10) == 0 {
		mids[rng.IntN(len(mids))] = []int64{math.MinInt64, math.MaxInt64, 0, -1}[rng.IntN(4)]
	}
	b := &record.Batch{}
	slots := 1 + rng.Int64N(30)
	for range rows {
		b.Append(record.Key{CID: 1, MOID: 2, MID: mids[rng.IntN(len(mids))],
			CapNs: rng.Int64N(slots) * 900e9}, appendWords(nil, uint64(rng.IntN(1000))))
	}
	in := inputOf(rng, b)
	sortSubRuns(rng, in)
	return in
}

// Blocks whose devices have lines are written, read back, filtered and searched as others are.
func TestDeviceLinesModel(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	lines, others := 0, 0
	for range 200 {
		in := crowd(rng, 1+rng.IntN(1<<rng.IntN(15)))
		checkModel(t, rng, in, func(b *Block, order []uint32) {
			if b.keys[record.MID].kind != columnLines {
				others++
				return
			}
			lines++
			checkKeys(t, in, b, order)
			for range 5 {
				checkFilters(t, rng, in, b, order)
				checkSearches(t, rng, in, b, order)
				gatherSome(t, rng, in, b, order, &record.Batch{}, nil)
			}
		})
	}
	if lines < 30 || others < 30 {
		t.Errorf("%d blocks with lines, %d without", lines, others)
	}
}
