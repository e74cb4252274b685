package plugins_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// seriesRows returns rows of series with some rows each, at most long ones, as columns and as
// series.
func seriesRows(rng *rand.Rand, long int) (columns, series record.Batch) {
	rows := 1 + rng.IntN(5000)
	for columns.Len() < rows {
		k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(100), MOID: rng.Int32N(2)}
		for range 1 + rng.IntN(long) {
			columns.Append(k, nil)
			series.Append(record.Key{}, nil)
			k.CapNs++
		}
		series.Series = append(series.Series, record.SeriesRun{MID: k.MID, CID: k.CID, MOID: k.MOID,
			End: uint64(series.Len())})
	}
	return columns, series
}

// TestSeriesInEachLanguage runs a filter that looks at series, written once per language, over rows
// of long and short ones, and compares which rows it keeps.
func TestSeriesInEachLanguage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, wasm := range map[string]string{"c": "../sdk/plugin/c/testdata/odd.wasm",
		"rust": "../sdk/plugin/rust/testdata/odd.wasm", "go": ""} {
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
			columns, series := seriesRows(rng, 1+rng.IntN(60))
			want := make([]uint64, (columns.Len()+63)/64)
			for i, mid := range columns.MID {
				want[i/64] |= uint64(mid%2) << (i % 64)
			}
			for form, b := range map[string]*record.Batch{"columns": &columns, "series": &series} {
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
