package wire

import (
	"bytes"
	"math"
	"math/rand/v2"

	"github.com/pentad-db/pentad/sdk/record"
)

// numbers makes n numbers of one of the shapes that columns take, within [lo, hi].
func numbers(rng *rand.Rand, n int, lo, hi int64) []int64 {
	out := make([]int64, n)
	clip := func(v int64) int64 { return max(lo, min(hi, v)) }
	shape := rng.IntN(6)
	step := rng.Int64N(1 << rng.IntN(50))
	for i := range out {
		switch shape {
		case 0: // constant
			out[i] = clip(step)
		case 1: // rising by about a step
			out[i] = clip(int64(i)*step + rng.Int64N(1+step/8))
		case 2: // narrow
			out[i] = clip(-5 + rng.Int64N(1+int64(rng.IntN(300))))
		case 3: // all over
			out[i] = clip(int64(rng.Uint64()))
		case 4: // the ends
			out[i] = [...]int64{lo, hi, clip(0), clip(-1), hi - 1}[rng.IntN(5)]
		default: // falling, wrapping around
			out[i] = clip(int64(uint64(math.MaxInt64) - uint64(i)*uint64(step)))
		}
	}
	return out
}

func narrow(values []int64) []int32 {
	out := make([]int32, len(values))
	for i, v := range values {
		out[i] = int32(v)
	}
	return out
}

// randomBatch makes a batch of any shape that a batch can have.
func randomBatch(rng *rand.Rand, stamped bool) *record.Batch {
	n := 1 + rng.IntN(1<<rng.IntN(12))
	b := &record.Batch{
		CID: narrow(numbers(rng, n, 0, math.MaxInt32)), MID: numbers(rng, n, math.MinInt64,
			math.MaxInt64),
		MOID:  narrow(numbers(rng, n, math.MinInt32, math.MaxInt32)),
		CapNs: numbers(rng, n, math.MinInt64, math.MaxInt64),
	}
	if stamped {
		b.AcqNs = numbers(rng, n, math.MinInt64, math.MaxInt64)
	}
	for range rng.IntN(4) * rng.IntN(2) {
		b.SetTomb(rng.IntN(n))
	}
	random, few := rng.IntN(2) == 0, rng.IntN(4)
	fill := func(size int) {
		for range size {
			if random {
				b.Data = append(b.Data, byte(rng.Uint32()))
			} else {
				b.Data = append(b.Data, byte(rng.IntN(1+few)))
			}
		}
	}
	switch rng.IntN(4) {
	case 0: // no payloads
	case 1: // words
		b.Stride = 8 * (1 + rng.IntN(maxWords+2))
		fill(n * b.Stride)
	case 2: // another fixed size
		b.Stride = 1 + rng.IntN(70)
		fill(n * b.Stride)
	default:
		b.Offsets = []uint32{0}
		for range n {
			fill(rng.IntN(40))
			b.Offsets = append(b.Offsets, uint32(len(b.Data)))
		}
	}
	return b
}

// equalBatches compares what batches say, not how they say it: payloads of one size may come dense
// or with offsets.
func equalBatches(a, b *record.Batch) bool {
	if a.Len() != b.Len() || (a.AcqNs == nil) != (b.AcqNs == nil) {
		return false
	}
	for i := range a.Len() {
		if a.Key(i) != b.Key(i) || a.Tomb(i) != b.Tomb(i) ||
			!bytes.Equal(a.Payload(i), b.Payload(i)) {
			return false
		}
	}
	return true
}

func randomQuery(rng *rand.Rand) *record.Query {
	q := &record.Query{View: record.View(rng.IntN(3)), Limit: rng.Uint64() >> rng.IntN(64),
		KeysOnly: rng.IntN(2) == 0, Verify: rng.IntN(2) == 0}
	if q.View == record.ViewAsOf {
		q.AsOfAcqNs = int64(rng.Uint64())
	}
	if q.View != record.ViewAll && rng.IntN(2) == 0 {
		q.Last = 1 + rng.Uint32N(record.MaxLast)
	}
	for d := range record.NumDims {
		for range rng.IntN(4) {
			dim := record.Dim(d)
			from := dim.Min() + rng.Int64N(math.MaxInt32-1)
			q.Box[d] = append(q.Box[d], record.Range{From: from,
				To: min(dim.Max(), from+1+rng.Int64N(1000))})
		}
	}
	if rng.IntN(4) == 0 {
		q.Select = "( type=meter) and floor=2..4"
		if rng.IntN(2) == 0 {
			q.Select, q.Moving = "near(65,25,1km)", "location,1h0m0s"
		}
		q.Box[record.CID] = record.RangeSet{record.At(rng.Int64N(1000))}
	}
	if rng.IntN(3) == 0 {
		q.Where = "value >= 5 or not quality = 0"
	}
	for range rng.IntN(3) * rng.IntN(record.MaxFilters/2+1) {
		q.Filters = append(q.Filters, record.PluginCall{Name: "threshold",
			Params: make([]byte, rng.IntN(5))})
	}
	if rng.IntN(2) == 0 {
		q.Aggregate = record.PluginCall{Name: "stats", Params: []byte("x")}
		q.GroupBy = record.GroupBy{CID: rng.IntN(2) == 0, MID: rng.IntN(2) == 0,
			MOID: rng.IntN(2) == 0, CapBucketNs: rng.Int64()}
		if rng.IntN(2) == 0 {
			q.GroupBy.CapBucketNs = 0
			q.GroupBy.Window = record.Window{Unit: record.WindowUnit(1 + rng.IntN(6)),
				N: 1 + rng.Uint32N(24), Zone: []string{"UTC", "Europe/Oslo", "+05:30"}[rng.IntN(3)]}
		}
		if rng.IntN(4) == 0 {
			q.GroupBy.Key = []string{"group[2]", "group[2],type"}[rng.IntN(2)]
			q.Box[record.CID] = record.RangeSet{record.At(rng.Int64N(1000))}
		}
		return q
	}
	q.Order = record.Order(rng.IntN(3))
	return q
}
