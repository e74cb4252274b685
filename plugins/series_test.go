package plugins_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// seriesRows returns rows of series with up to long rows each.
func seriesRows(rng *rand.Rand, long int) (b record.Batch) {
	rows := 1 + rng.IntN(5000)
	for b.Len() < rows {
		k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(100), MOID: rng.Int32N(2)}
		for range 1 + rng.IntN(long) {
			b.Append(k, nil)
			k.CapNs++
		}
	}
	return b
}

// asSeries returns the same rows with series in the place of columns.
func asSeries(b *record.Batch) *record.Batch {
	out := *b
	for i := range b.Len() {
		s := record.SeriesRun{MID: b.MID[i], CID: b.CID[i], MOID: b.MOID[i], End: uint64(i)}
		if last := len(out.Series) - 1; last >= 0 && out.Series[last] == s {
			out.Series[last].End++
			continue
		}
		s.End++
		out.Series = append(out.Series, s)
	}
	out.CID, out.MID = make([]int32, b.Len()), make([]int64, b.Len())
	out.MOID = make([]int32, b.Len())
	return &out
}

// TestSeriesInEachLanguage runs a filter that looks at series, written once per language, over rows
// of long and short ones, and compares which rows it keeps.
func TestSeriesInEachLanguage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, wasm := range map[string]string{"c": "../sdk/plugin/c/testdata/odd.wasm",
		"rust": "../sdk/plugin/rust/testdata/odd.wasm",
		"as":   "../sdk/plugin/as/testdata/odd.wasm", "go": ""} {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := load(t, newHost(t), buildGo(t, "./testdata/odd"))
		if wasm != "" {
			m = loadFile(t, wasm)
		}
		for range 10 {
			f, err := m.NewFilter(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			columns := seriesRows(rng, 1+rng.IntN(60))
			series := asSeries(&columns)
			want := make([]uint64, (columns.Len()+63)/64)
			for i, mid := range columns.MID {
				want[i/64] |= uint64(mid%2) << (i % 64)
			}
			for form, b := range map[string]*record.Batch{"columns": &columns, "series": series} {
				got := make([]uint64, len(want))
				if err := f.Keep(t.Context(), b, got); err != nil {
					t.Fatalf("%s, %s: %v", name, form, err)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s, %s: kept %x, want %x", name, form, got, want)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
