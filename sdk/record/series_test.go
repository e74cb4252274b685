package record

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSeriesAgainstColumns changes batches with series in random ways, and the same batches with
// columns, and compares the keys of all records.
func TestSeriesAgainstColumns(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var columns Batch
		for range 1 + rng.IntN(8) {
			k := Key{CID: rng.Int32N(3), MID: rng.Int64N(3) - 1, MOID: -rng.Int32N(3)}
			for range 1 + rng.IntN(9) {
				columns.Append(k, []byte{byte(columns.Len())})
				k.CapNs += rng.Int64N(3)
			}
			columns.Series = append(columns.Series, SeriesRun{MID: k.MID, CID: k.CID, MOID: k.MOID,
				End: uint64(columns.Len())})
		}
		b := columns
		b.CID, b.MID = make([]int32, b.Len()), make([]int64, b.Len())
		b.MOID, b.CapNs = make([]int32, b.Len()), slices.Clone(b.CapNs)
		b.Data, b.Series = slices.Clone(b.Data), slices.Clone(b.Series)
		columns.Series = nil
		for i := range b.Len() {
			if s := b.Series[b.SeriesOf(i)]; s.MID != columns.MID[i] || s.CID != columns.CID[i] {
				t.Fatalf("record %d is of %+v, want %+v", i, s, columns.Key(i))
			}
		}
		switch n := rng.IntN(b.Len() + 1); rng.IntN(4) {
		case 0:
			b, columns = *b.Head(n), *columns.Head(n)
		case 1:
			b.Truncate(n)
			columns.Truncate(n)
		case 2:
			to := rng.IntN(n + 1)
			b.MoveRange(to, n, b.Len()-n)
			columns.MoveRange(to, n, columns.Len()-n)
		}
		if err := b.CheckShape(); err != nil {
			t.Fatal(err)
		}
		b.FillKeys()
		if len(b.Series) > 0 || b.Len() != columns.Len() {
			t.Fatalf("%d series left, %d records, want %d", len(b.Series), b.Len(), columns.Len())
		}
		for i := range b.Len() {
			if b.Key(i) != columns.Key(i) || !slices.Equal(b.Payload(i), columns.Payload(i)) {
				t.Fatalf("record %d is %+v, want %+v", i, b.Record(i), columns.Record(i))
			}
		}
	}
}

// Runs of series must follow each other up to the last record.
func TestShapeOfSeries(t *testing.T) {
	b := Batch{CID: make([]int32, 4), MID: make([]int64, 4), MOID: make([]int32, 4),
		CapNs: make([]int64, 4)}
	for _, ends := range [][]uint64{{3}, {5}, {0, 4}, {2, 2, 4}, {3, 2, 4}, {4, 1 << 32}} {
		b.Series = nil
		for _, end := range ends {
			b.Series = append(b.Series, SeriesRun{End: end})
		}
		refused(t, "series", b.CheckShape(), "batch", Inconsistent, "runs of series")
	}
	b.Series = []SeriesRun{{End: 1}, {End: 4}}
	if err := b.CheckShape(); err != nil {
		t.Error(err)
	}
	if b.Reset(); len(b.Series) > 0 {
		t.Error("an empty batch has series")
	}
}
