package segment

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// arrival is a row, and when it comes.
type arrival struct {
	key     record.Key
	at      int64
	payload []byte
	tomb    bool
}

// clock makes the caps of a series: regular, jittered, with gaps, repeated, or any at all.
func clock(rng *rand.Rand) func(i int) int64 {
	step := []int64{1, 1e6, 1e9, 9e11, 1<<53 + 1}[rng.IntN(5)]
	at := rng.Int64N(1e18)
	switch rng.IntN(7) {
	case 0:
		return func(int) int64 { return extremes(rng) }
	case 1:
		return func(int) int64 { return at }
	case 2:
		return func(i int) int64 { return at + int64(i/2)*step }
	case 3:
		return func(i int) int64 { return at + int64(i)*step + rng.Int64N(step/3+1) }
	case 4:
		return func(i int) int64 {
			if rng.IntN(30) == 0 {
				at += step * rng.Int64N(100)
			}
			return at + int64(i)*step
		}
	default:
		return func(i int) int64 { return at + int64(i)*step }
	}
}

// oddWords are payload words that come seldom among others.
var oddWords = []uint64{0, 1, 1 << 63, math.MaxUint64, math.MaxInt64, 1, 2,
	math.Float64bits(math.Copysign(0, -1)), math.Float64bits(math.NaN()), 0x7ff0_0000_0000_0001,
	0xfff8_0000_dead_beef, math.Float64bits(math.Inf(-1)), math.Float64bits(5e-324)}

// walk makes payloads of words that wander, with odd ones among them.
func walk(rng *rand.Rand) func() []byte {
	words := 1 + rng.IntN(2)
	odd := []int{0, 0, 300, 2}[rng.IntN(4)]
	decimal, at := rng.IntN(2) == 0, rng.Int64N(1e6)
	return func() (p []byte) {
		for range words {
			at += rng.Int64N(5) - 2
			w := uint64(at)
			if decimal {
				w = math.Float64bits(float64(at) / 10)
			}
			if odd > 0 && rng.IntN(odd) == 0 {
				w = oddWords[rng.IntN(len(oddWords))]
			}
			p = binary.LittleEndian.AppendUint64(p, w)
		}
		return p
	}
}

// randomSeries makes about n rows of some series, in blocks of some sub-runs each.
func randomSeries(rng *rand.Rand, n int) *SealedInput {
	ids, payload := anyGenerator(rng), walk(rng)
	var all []arrival
	perSeries := 1 + rng.IntN(1+n/(1+rng.IntN(40)))
	shuffled := rng.IntN(4) == 0
	tombs := rng.IntN(4) == 0
	for len(all) < n {
		k := record.Key{CID: rng.Int32N(2), MID: ids(rng), MOID: rng.Int32N(2)}
		at := clock(rng)
		delay := rng.Int64N(1e6)
		for i := range perSeries {
			k.CapNs = at(i)
			a := arrival{key: k, at: int64(i)*1e9 + delay, payload: payload(),
				tomb: tombs && rng.IntN(20) == 0}
			if shuffled && rng.IntN(9) == 0 {
				a.at = rng.Int64N(int64(perSeries) * 1e9)
			}
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	b := &record.Batch{}
	for _, a := range all {
		if a.tomb {
			b.AppendTomb(a.key)
		} else {
			b.Append(a.key, a.payload)
		}
	}
	in := inputOf(rng, b)
	in.BlockEnds = nil
	for at := 0; at < b.Len(); in.BlockEnds = append(in.BlockEnds, uint32(at)) {
		at = min(b.Len(), at+1+rng.IntN(maxBlockRows))
	}
	sortSubRuns(rng, in)
	return in
}

// sortSubRuns sorts the rows of blocks as the clusterer does.
func sortSubRuns(rng *rand.Rand, in *SealedInput) {
	start, subs := 0, 1<<rng.IntN(4)
	for _, end := range in.BlockEnds {
		rows := in.Order[start:end]
		by := func(f func(a, b record.Key) int) func(x, y uint32) int {
			return func(x, y uint32) int {
				a, b := in.Rows.Key(int(x)), in.Rows.Key(int(y))
				return cmp.Or(f(a, b), cmp.Compare(x, y))
			}
		}
		byCap := by(func(a, b record.Key) int { return cmp.Compare(a.CapNs, b.CapNs) })
		slices.SortFunc(rows, byCap)
		for i := range subs {
			slices.SortFunc(rows[len(rows)*i/subs:len(rows)*(i+1)/subs], by(compareReadings))
		}
		start = int(end)
	}
}

// Rows of series are written and read back whole, whatever their clocks, arrivals and values.
func TestRunsModel(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	runs, framed := 0, 0
	for range 60 {
		in := randomSeries(rng, 1+rng.IntN(9000))
		checkModel(t, rng, in, func(b *Block, order []uint32) {
			for w := range b.wordColumns {
				if b.wordColumns[w].table != nil {
					framed++
				}
			}
			if b.runs.count > 0 {
				runs++
				checkKeys(t, in, b, order)
			}
			checkSearches(t, rng, in, b, order)
		})
	}
	if runs < 10 || framed < 5 {
		t.Errorf("%d blocks with runs and %d columns with frames", runs, framed)
	}
}

// checkKeys looks at the parts of keys one by one.
func checkKeys(t *testing.T, in *SealedInput, b *Block, order []uint32) {
	t.Helper()
	for i, row := range order {
		k := in.Rows.Key(int(row))
		k.AcqNs = int64(row)
		for d := range record.Dim(record.NumDims) {
			if got := b.key(d, i); got != k.Part(d) {
				t.Fatalf("%v of row %d is %d, want %d", d, i, got, k.Part(d))
			}
		}
	}
	for _, c := range b.Describe().Columns[:record.NumDims] {
		if c.Low > c.High || c.Runs != b.runs.count {
			t.Fatalf("%+v", c)
		}
	}
}

// checkSearches looks for devices and readings where rows are sorted.
func checkSearches(t *testing.T, rng *rand.Rand, in *SealedInput, b *Block, order []uint32) {
	t.Helper()
	keys := make([]record.Key, len(order))
	for i, row := range order {
		keys[i] = in.Rows.Key(int(row))
	}
	lo := rng.IntN(len(keys))
	hi := lo + 1
	for hi < len(keys) && compareReadings(keys[hi-1], keys[hi]) <= 0 && rng.IntN(2000) > 0 {
		hi++
	}
	for range 20 {
		k := keys[rng.IntN(len(keys))]
		if rng.IntN(4) == 0 {
			k.CapNs += 1 - rng.Int64N(3)
		}
		first, end := b.SearchReading(lo, hi, k)
		want := 0
		for _, other := range keys[lo:hi] {
			if compareReadings(other, k) == 0 {
				want++
			}
		}
		if end-first != want || want > 0 && compareReadings(keys[first], k) != 0 {
			t.Fatalf("%v in [%d, %d): got [%d, %d), want %d", k, lo, hi, first, end, want)
		}
	}
	if keys[lo].CID != keys[hi-1].CID || keys[lo].MOID != keys[hi-1].MOID {
		return
	}
	for range 20 {
		from, to := keys[rng.IntN(len(keys))].MID, keys[rng.IntN(len(keys))].MID
		first, end := b.SearchMIDs(lo, hi, b.FindMIDs(from, to, keys[rng.IntN(len(keys))].MID))
		want := 0
		for _, k := range keys[lo:hi] {
			if from <= k.MID && k.MID < to {
				want++
			}
		}
		if max(0, end-first) != want || want > 0 && keys[first].MID < from {
			t.Fatalf("[%d, %d) in [%d, %d): got [%d, %d), want %d", from, to, lo, hi, first, end,
				want)
		}
	}
}

// TestShortRuns writes devices with some readings each: as runs, where these are long enough for
// the number of sub-runs.
func TestShortRuns(t *testing.T) {
	rng := randomSource(t)
	f := func(readings, subRuns int, want bool) {
		t.Helper()
		b := &record.Batch{}
		const devices = 1000
		for i := range readings * devices {
			b.Append(record.Key{MID: int64(i / readings), CapNs: int64(i % readings)}, nil)
		}
		in := inputOf(rng, b)
		in.BlockEnds = []uint32{uint32(b.Len())}
		slices.Sort(in.Order)
		each := readings / subRuns
		slices.SortStableFunc(in.Order, func(x, y uint32) int {
			return cmp.Compare(int(x)%readings/each, int(y)%readings/each)
		})
		checkModel(t, rng, in, func(b *Block, order []uint32) {
			if has := b.runs.count > 0; has != want {
				t.Errorf("%d readings in %d sub-runs: has runs: %v", readings, subRuns, has)
			}
			checkKeys(t, in, b, order)
		})
	}
	f(3, 1, false)
	f(4, 1, true)
	f(7, 1, true)
	f(8, 2, false)
	f(8, 1, true)
}
