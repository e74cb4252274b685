package segment

import (
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestGatherSeries gathers rows of blocks, some of which have no runs or short ones, into the same
// batches with series and with columns, and compares their keys.
func TestGatherSeries(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	asSeries, asColumns := 0, 0
	for range 60 {
		in := randomSeries(rng, 1+rng.IntN(9000))
		var got, want record.Batch
		checkModel(t, rng, in, func(b *Block, order []uint32) {
			for range 5 {
				p := randomPositions(rng, len(order))
				if p.n > 5000 {
					got.Reset()
					want.Reset()
				}
				columns := (1<<record.Cap | SeriesRuns | Payloads).Union(Columns(rng.IntN(8)))
				err := b.GatherColumns(p.sel, p.spans, columns, &got)
				if err == nil {
					err = b.GatherColumns(p.sel, p.spans, Keys&^(1<<record.Acq)|Payloads, &want)
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Series) > 0 {
					asSeries++
				} else {
					asColumns++
				}
				checkSeries(t, &got, &want)
			}
		})
	}
	if asSeries < 5 || asColumns < 20 {
		t.Errorf("%d batches with series, %d without", asSeries, asColumns)
	}
}

// checkSeries compares keys, and looks whether caps ascend in a series.
func checkSeries(t *testing.T, got, want *record.Batch) {
	t.Helper()
	if err := got.CheckShape(); err != nil || got.Len() != want.Len() {
		t.Fatalf("%d rows, want %d; %v", got.Len(), want.Len(), err)
	}
	from := 0
	for _, s := range got.Series {
		for i := from + 1; i < int(s.End); i++ {
			if got.CapNs[i] < got.CapNs[i-1] {
				t.Fatalf("the cap of row %d of a series, %d, comes after %d", i, got.CapNs[i],
					got.CapNs[i-1])
			}
		}
		from = int(s.End)
	}
	filled := got.Head(got.Len())
	filled.CID, filled.MID = append([]int32(nil), got.CID...), append([]int64(nil), got.MID...)
	filled.MOID = append([]int32(nil), got.MOID...)
	filled.FillKeys()
	for i := range want.Len() {
		if filled.Key(i) != want.Key(i) {
			t.Fatalf("row %d is %v, want %v", i, filled.Key(i), want.Key(i))
		}
	}
}
