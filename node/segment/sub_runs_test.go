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
				checkDevices(t, rng, in, b, order)
				gatherSome(t, rng, in, b, order, &record.Batch{}, nil)
			}
		})
	}
	if tables < 30 || clocks < 5 || several < 15 {
		t.Errorf("%d blocks with sub-runs, %d with several, %d with clocks", tables, several,
			clocks)
	}
}

// checkDevices searches for devices in each sub-run and gathers their rows.
func checkDevices(t *testing.T, rng *rand.Rand, in *SealedInput, b *Block, order []uint32) {
	t.Helper()
	mid := func(i int) int64 { return in.Rows.MID[order[i]] }
	from := mid(rng.IntN(len(order)))
	to := from
	switch rng.IntN(4) {
	case 0:
		to = mid(rng.IntN(len(order)))
	case 1:
		to = math.MaxInt64
	}
	to = max(to, min(from, math.MaxInt64-1)+1)
	m := b.FindMIDs(from, to, mid(rng.IntN(len(order))))
	if rng.IntN(2) == 0 {
		devices := []MIDs{m}
		b.PlaceMIDs(devices)
		m = devices[0]
	}
	var spans []Span
	var want []uint32
	for s := range b.subRuns.count {
		lo, hi := b.subRuns.start(s), b.subRuns.end(s)
		if hi-lo > 2 && rng.IntN(4) == 0 {
			lo, hi = lo+rng.IntN(2), hi-rng.IntN(2)
		}
		first, end := b.SearchMIDs(lo, hi, m)
		if first < end {
			spans = append(spans, Span{uint32(first), uint32(end)})
		}
		for i := lo; i < hi; i++ {
			if isIn := from <= mid(i) && mid(i) < to; isIn != (first <= i && i < end) {
				t.Fatalf("[%d, %d) in rows [%d, %d): got [%d, %d), row %d is of %d", from, to, lo,
					hi, first, end, i, mid(i))
			} else if isIn {
				want = append(want, order[i])
			}
		}
	}
	b.PrefetchMIDs(b.LikelyMIDs(0, b.rows, m, nil))
	var dst record.Batch
	if len(spans) == 0 {
		return
	}
	if err := b.GatherColumns(nil, spans, Keys, &dst); err != nil {
		t.Fatal(err)
	}
	for k, rank := range want {
		wantRow(t, in, &dst, k, rank, true)
	}
}

// Without vectors, devices are what they are with them, and both are those of the rows.
func TestSubRunsByRow(t *testing.T) {
	rng := randomSource(t)
	for found := 0; found < 20; {
		s := mustSeal(t, fleet(rng, 1+rng.IntN(1<<rng.IntN(14))))
		b := firstBlock(t, s)
		table := &b.subRuns
		if table.count == 0 {
			continue
		}
		found++
		table.loadDevices(0, table.devices)
		for range 100 {
			sub := rng.IntN(table.count)
			checkOnes(t, rng, table, table.bitsOf(b.rows))
			checkExpansion(t, rng, b, sub)
			checkNumbers(t, rng, b, sub)
		}
	}
}

func checkOnes(t *testing.T, rng *rand.Rand, table *subRunTable, bits int) {
	t.Helper()
	bit, n, more := rng.IntN(bits), rng.IntN(table.devices+1), rng.IntN(table.devices+1)
	first, last := table.findOnes(bit, bits, n, more)
	if f, l := table.skipOnes(bit, bits, n, more); first != f || last != l {
		t.Fatalf("%d and %d ones from bit %d to %d: %d, %d, by the word %d, %d", n, more, bit, bits,
			first, last, f, l)
	}
}

func checkExpansion(t *testing.T, rng *rand.Rand, b *Block, sub int) {
	t.Helper()
	table := &b.subRuns
	lo := table.start(sub) + rng.IntN(table.end(sub)-table.start(sub))
	rows := 1 + rng.IntN(table.end(sub)-lo)
	e := b.expansionAt(sub, lo)
	want, got := make([]int64, rows+1), make([]int64, rows+1)
	table.expandByRow(&e, want[:rows])
	table.expandBits(&e, got[:rows])
	if !slices.Equal(got, want) { // what follows, too
		t.Fatalf("rows [%d, %d): %d by vectors, %d by rows", lo, lo+rows, got, want)
	}
	for k, v := range want[:rows] {
		if of := b.key(record.MID, lo+k); of != v {
			t.Fatalf("row %d is of %d, want %d", lo+k, v, of)
		}
	}
}

func checkNumbers(t *testing.T, rng *rand.Rand, b *Block, sub int) {
	t.Helper()
	table := &b.subRuns
	lo := table.start(sub) + rng.IntN(table.end(sub)-table.start(sub))
	rows := 1 + rng.IntN(table.end(sub)-lo)
	e := b.expansionAt(sub, lo)
	want, got := make([]uint32, rows+numberedRows), make([]uint32, rows+numberedRows)
	table.numberByRow(&e, want, rows)
	table.numberBits(&e, got, rows)
	if !slices.Equal(got[:rows], want[:rows]) {
		t.Fatalf("rows [%d, %d): %d by vectors, %d by rows", lo, lo+rows, got, want)
	}
	for k, number := range want[:rows] {
		if of := b.deviceOf(lo + k); of != int(number) {
			t.Fatalf("row %d is of device %d, want %d", lo+k, number, of)
		}
	}
}

// A device that is in each sub-run costs a little more than a bit for each of its rows.
func TestSubRunsSize(t *testing.T) {
	in := meterBlocks(1, false)
	b := firstBlock(t, mustSeal(t, in))
	if b.subRuns.count != maxSubRuns || b.keys[record.Acq].width > 11 ||
		b.keys[record.Cap].width > 17 {
		t.Errorf("%d sub-runs, ranks of %d bits, caps of %d", b.subRuns.count,
			b.keys[record.Acq].width, b.keys[record.Cap].width)
	}
	if mids := b.Describe().Columns[record.MID]; mids.Bytes*8 > 5*maxBlockRows/2 {
		t.Errorf("%+v", mids)
	}
}
