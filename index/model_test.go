package index

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// shape is a way in which rows can be distributed.
type shape struct {
	name               string
	cids, mids, moids  int64
	capSpanNs, lateNs  int64 // lateNs: one row in ten is up to so late
	extremes, equalKey bool
	batch              int // rows with consecutive acqs
}

func shapes() []shape {
	minute := int64(time.Minute)
	return []shape{
		{name: "meters", cids: 4, mids: 3000, moids: 5, capSpanNs: 2000 * minute, batch: 1000},
		{name: "late", cids: 2, mids: 500, moids: 3, capSpanNs: 500 * minute, lateNs: 3000 * minute,
			batch: 100},
		{name: "one device", cids: 1, mids: 1, moids: 1, capSpanNs: 9000 * minute, batch: 7},
		{name: "many tenants", cids: 4000, mids: 3, moids: 2, capSpanNs: 10 * minute, batch: 5000},
		{name: "one moment", cids: 2, mids: 9000, moids: 9, capSpanNs: 1, batch: 1},
		{name: "equal keys", cids: 1, mids: 1, moids: 1, equalKey: true, batch: 50},
		{name: "extremes", cids: 3, mids: 5, moids: 3, extremes: true, batch: 3},
	}
}

// rows makes n stamped rows of a shape, with payloads.
func (s shape) rows(rng *rand.Rand, n int) *record.Batch {
	b := new(record.Batch)
	acq := int64(1_700_000_000_000_000_000)
	if s.extremes {
		acq = math.MaxInt64 - int64(n)*1000
	}
	for i := range n {
		if i%s.batch == 0 {
			acq += rng.Int64N(900)
		}
		k := record.Key{CID: int32(rng.Int64N(s.cids)), MID: 4_000_000_000 + rng.Int64N(s.mids),
			MOID: int32(rng.Int64N(s.moids)) - 1, AcqNs: acq}
		if !s.equalKey && !s.extremes {
			k.CapNs = acq - int64(n-i)*(s.capSpanNs/int64(n)) - rng.Int64N(1+s.capSpanNs/100)
			if s.lateNs > 0 && rng.IntN(10) == 0 {
				k.CapNs -= rng.Int64N(s.lateNs)
			}
		}
		if s.extremes {
			k.CID = [...]int32{0, 1, math.MaxInt32 - 1}[rng.IntN(3)]
			k.MOID = [...]int32{math.MinInt32, 0, math.MaxInt32 - 1}[rng.IntN(3)]
			k.MID = [...]int64{math.MinInt64, -1, 0, 1, math.MaxInt64 - 1}[rng.IntN(5)]
			k.CapNs = [...]int64{math.MinInt64, 0, math.MaxInt64 - 1, rng.Int64()}[rng.IntN(4)]
		}
		b.AppendStamped(k, []byte{byte(i), byte(i >> 8), byte(k.MID)}[:rng.IntN(4)])
		acq++
	}
	return b
}

// box makes a box around values that occur: of some dimensions none, one or several ranges.
func box(t *testing.T, rng *rand.Rand, rows *record.Batch) *record.Box {
	t.Helper()
	var q record.Query
	for d := range record.Dim(record.NumDims) {
		if rng.IntN(2) == 0 {
			continue
		}
		for range 1 + rng.IntN(1+rng.IntN(5)) {
			a := rows.Key(rng.IntN(rows.Len())).Part(d)
			b := rows.Key(rng.IntN(rows.Len())).Part(d)
			from, to := min(a, b), max(a, b)
			switch rng.IntN(5) {
			case 0:
				to = d.Max()
			case 1:
				from = d.Min()
			case 2:
				to = from
			}
			if to < d.Max() {
				to++
			}
			q.Box[d] = append(q.Box[d], record.Range{From: from, To: to})
		}
	}
	if err := q.Normalize(); err != nil {
		t.Fatal(err)
	}
	return &q.Box
}

// eachShape runs f on rows of every shape and of sizes about the borders of blocks.
func eachShape(t *testing.T, opt Options,
	f func(t *testing.T, rng *rand.Rand, rows *record.Batch)) {
	t.Helper()
	block := opt.withDefaults().BlockRows
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			for _, n := range []int{1, 2, 7, block - 1, block, block + 1, 40*block + 3} {
				f(t, rng, s.rows(rng, n))
			}
		})
	}
}

func small() Options { return Options{BlockRows: 64} }

// indexOf builds the index of rows with random flags.
func indexOf(rng *rand.Rand, rows *record.Batch, opt Options) (*Segment, *Layout, []uint64) {
	l := clusterRows(rows, opt)
	flags := make([]uint64, (rows.Len()+63)/64)
	for i := range rows.Len() {
		if rng.IntN(20) == 0 {
			flags[i>>6] |= 1 << (i & 63)
		}
	}
	offsets, sizes := make([]uint64, len(l.BlockEnds)), make([]uint32, len(l.BlockEnds))
	for i := range offsets {
		offsets[i], sizes[i] = uint64(i)*1000, 900
	}
	return Build(rows, l, flags, offsets, sizes), l, flags
}

// key returns the values of a row as the directory keeps them, with its rank for its acq.
func key(rows *record.Batch, rank uint32) [record.NumDims]int64 {
	return [record.NumDims]int64{int64(rows.CID[rank]), rows.MID[rank], int64(rows.MOID[rank]),
		rows.CapNs[rank], int64(rank)}
}
