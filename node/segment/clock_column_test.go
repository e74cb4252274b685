package segment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// ticks makes some readings of many series each, up to a jitter after the ticks of a clock, with
// odd caps among them now and then.
func ticks(rng *rand.Rand, n int) *SealedInput {
	b := &record.Batch{}
	period := int64(clockPeriods[rng.IntN(len(clockPeriods))])
	jitter := []int64{1, 1000, period / 100, period / 3, period}[rng.IntN(5)]
	unit := min([]int64{1, 1e3, 1e6, 1e9}[rng.IntN(4)], jitter)
	first := []int64{0, -1 << 61, 1.7e18, rng.Int64N(1e18)}[rng.IntN(4)]
	odd := []int{0, 0, 0, 500}[rng.IntN(4)]
	slots := 1 + rng.Int64N(200)
	for range n {
		k := record.Key{CID: 1, MID: rng.Int64N(3000), MOID: 1}
		k.CapNs = first + rng.Int64N(slots)*period + rng.Int64N(jitter/unit)*unit
		if odd > 0 && rng.IntN(odd) == 0 {
			k.CapNs = extremes(rng)
		}
		b.Append(k, nil)
	}
	in := inputOf(rng, b)
	sortSubRuns(rng, in)
	return in
}

// Caps at a clock are written, read back, filtered and searched as others are.
func TestClocksModel(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	clocks, others := 0, 0
	for range 60 {
		in := ticks(rng, 1+rng.IntN(9000))
		checkModel(t, rng, in, func(b *Block, order []uint32) {
			if b.keys[record.Cap].kind != columnClock {
				others++
				return
			}
			clocks++
			checkKeys(t, in, b, order)
			checkSearches(t, rng, in, b, order)
			checkCaps(t, rng, in, b, order)
		})
	}
	if clocks < 10 || others < 10 {
		t.Errorf("%d blocks with clocks, %d without", clocks, others)
	}
}

// checkCaps filters by ranges whose ends are at or next to caps.
func checkCaps(t *testing.T, rng *rand.Rand, in *SealedInput, b *Block, order []uint32) {
	t.Helper()
	for range 30 {
		var q record.Query
		set := q.Box[record.Cap]
		for range 1 + rng.IntN(2)*rng.IntN(12) {
			from := in.Rows.CapNs[order[rng.IntN(len(order))]] + rng.Int64N(3) - 1
			set = append(set, record.Range{From: from, To: max(from, from+rng.Int64N(1e12)) + 1})
		}
		if rng.IntN(10) == 0 {
			set = record.RangeSet{{From: math.MinInt64, To: math.MaxInt64}}
		}
		q.Box[record.Cap] = set
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		set = q.Box[record.Cap]
		var want []uint32
		for i, row := range order {
			if set.Contains(in.Rows.CapNs[row]) {
				want = append(want, uint32(i))
			}
		}
		if got := b.FilterSpan(record.Cap, set, 0, len(order), nil); !slices.Equal(got, want) {
			t.Fatalf("%v: got %v, want %v", set, got, want)
		}
	}
}

// Of many ranges that are all far from the caps of a block, none has a row.
func TestClockFarRanges(t *testing.T) {
	b := &record.Batch{}
	for i := range int64(1000) {
		b.Append(record.Key{CID: 1, MID: i * 7 % 1000, MOID: 1,
			CapNs: 1.7e18 + i%50*int64(15*time.Minute) + i*7%1000*1e6}, nil)
	}
	in := inputOf(randomSource(t), b)
	in.BlockEnds = []uint32{1000}
	block := firstBlock(t, mustSeal(t, in))
	var far record.RangeSet
	for i := range int64(2 * manyMatches) {
		far = append(far, record.Range{From: i * 10, To: i*10 + 5})
	}
	if got := block.FilterSpan(record.Cap, far, 0, 1000, nil); len(got) > 0 {
		t.Errorf("%d rows, and a column of kind %d", len(got), block.keys[record.Cap].kind)
	}
}

// A clock takes about the bits of its ticks and of what caps are after these.
func TestClockSize(t *testing.T) {
	rng := randomSource(t)
	b := &record.Batch{}
	for range maxBlockRows {
		b.Append(record.Key{CID: 1, MID: rng.Int64N(1e6), MOID: 1,
			CapNs: 1.7e18 + rng.Int64N(64)*int64(15*time.Minute) + rng.Int64N(5000)*1e6}, nil)
	}
	in := inputOf(rng, b)
	in.BlockEnds = []uint32{maxBlockRows}
	c := firstBlock(t, mustSeal(t, in)).keys[record.Cap]
	if c.kind != columnClock || c.width > 13+7 {
		t.Errorf("kind %d, %d bits", c.kind, c.width)
	}
}
