package segment

import (
	"slices"
	"testing"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// checkExampleSeries: index writes the table and reads it, this room keeps it as a section.
func checkExampleSeries(t *testing.T, example []byte) {
	want := []index.SeriesCap{
		{Series: index.Series{CID: 7, MOID: 3, MID: 1000}, NewestNs: 1_000_000_000},
		{Series: index.Series{CID: 7, MOID: 3, MID: 1001}, NewestNs: 500_000_000},
		{Series: index.Series{CID: 7, MOID: 4, MID: 1000}, NewestNs: 0},
	}
	sameBytes(t, "written", index.AppendSeries(nil, want), example)
	table, err := index.ParseSeries(example)
	if err != nil {
		t.Fatal(err)
	}
	var got []index.SeriesCap
	table.Each(&record.Box{}, func(s index.SeriesCap) { got = append(got, s) })
	if !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}
