package segment

import (
	"slices"
	"testing"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// checkExampleSeries: index writes the table and reads it, this package keeps it as a section.
func checkExampleSeries(t *testing.T, example []byte) {
	want := []index.SeriesCap{
		{Series: index.Series{CID: 7, MOID: 3, MID: 1000}, MaxCapNs: 1_000_000_000},
		{Series: index.Series{CID: 7, MOID: 3, MID: 1001}, MaxCapNs: 500_000_000},
		{Series: index.Series{CID: 7, MOID: 4, MID: 1000}, MaxCapNs: 0},
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

// checkExampleRanks: index writes and reads the rank table, too.
func checkExampleRanks(t *testing.T, example []byte) {
	var rows record.Batch
	acq := int64(999)
	for i := range 520 {
		switch acq++; {
		case i == 518:
			acq += 1_000_000
		case i > 512 && i < 518:
			acq++
		}
		rows.AppendStamped(record.Key{CapNs: int64(i), AcqNs: acq}, nil)
	}
	l := new(index.Layout)
	index.NewClusterer(index.Options{}).Cluster(&rows, l)
	none := make([]uint64, 9)
	written := index.Build(&rows, l, none, none[:len(l.BlockEnds)], make([]uint32, 9))
	sameBytes(t, "written", written.AppendRanks(nil), example)
	read, err := index.Parse(written.AppendBlockDirectory(nil), written.AppendPostings(nil),
		example)
	if err != nil {
		t.Fatal(err)
	}
	for rank, want := range rows.AcqNs {
		if got := read.AcqOf(uint32(rank)); got != want {
			t.Fatalf("rank %d has acq %d, want %d", rank, got, want)
		}
	}
}
