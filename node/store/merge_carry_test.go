package store

import (
	"testing"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestMergeCarries: a merge of segments of full heads takes their full blocks over, one of other
// segments, or that leaves rows out, does not; the rows are the same, and so are the series. When
// the store rests, what was carried is clustered again.
func TestMergeCarries(t *testing.T) {
	const rows = 1000
	f := func(sealRows int, purge, want bool) {
		t.Helper()
		rng := randomSource(t)
		dir := t.TempDir()
		s := openTest(t, Options{Dir: dir, Shards: 1, SealRows: sealRows, Now: leapingClock(),
			Index: index.Options{BlockRows: 64}})
		m, sh := &model{}, shape{cids: 2, mids: 20, moids: 2, caps: 1000}
		for range mergepolicy.FanIn - 1 { // so that none is due
			b := sh.batch(rng, rows, 0)
			m.add(b, splitByShard(b, len(s.shards)), mustPut(t, s, b, WriterSeq{}))
			mustSeal(t, s)
		}
		mustSettle(t, s)
		merge := &merger{store: s, run: s.shards[0].State.Load().Sealed}
		merge.reader.CopyBlocks = true
		indexes, dropped := make([]*index.Segment, len(merge.run)), make([][]uint64, len(merge.run))
		for i, seg := range merge.run {
			indexes[i] = seg.Index
			if purge {
				dropped[i] = make([]uint64, rows/64+1)
			}
		}
		var err error
		if merge.ranks, err = rankMapOf(merge.run, indexes, dropped); err != nil {
			t.Fatal(err)
		}
		merge.chooseCarried()
		for i, seg := range merge.run {
			got := len(merge.carried[i])
			if (got > 0) != want || want && got < seg.Index.Blocks()/4 {
				t.Errorf("heads of %d rows: %d of %d blocks are carried", sealRows, got,
					seg.Index.Blocks())
			}
		}
		sh2 := s.shards[0]
		if err := s.merge(sh2, sh2.State.Load().Sealed, true); err != nil {
			t.Fatal(err)
		}
		all := sh2.State.Load().Sealed
		if len(all) != 1 {
			t.Fatalf("%d segments", len(all))
		}
		checkQueries(t, rng, s, sh, m, "merged", 20)
		checkSeriesOf(t, all[0].Series, m)
		if carried := all[0].Meta.CarriedRows; carried > 0 != (want || purge) {
			t.Errorf("heads of %d rows: %d rows are carried", sealRows, carried)
		}
		if err := s.MergeIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all = sh2.State.Load().Sealed; len(all) != 1 || all[0].Meta.CarriedRows > 0 {
			t.Errorf("%d segments at rest, %d rows are carried", len(all), all[0].Meta.CarriedRows)
		}
		checkQueries(t, rng, s, sh, m, "at rest", 20)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if report := mustCheck(t, dir); report.Damages > 0 {
			t.Errorf("damage: %+v", report.Damage)
		}
	}
	f(rows, false, true)
	f(rows, true, false)
	f(4*rows, false, false)
	f(rows/3, false, false)
}

// checkSeriesOf compares the table of series with the rows.
func checkSeriesOf(t *testing.T, table *index.SeriesTable, m *model) {
	t.Helper()
	want := map[index.Series]int64{}
	for _, row := range m.query(&record.Query{}) {
		k := row.key
		of := index.Series{CID: k.CID, MOID: k.MOID, MID: k.MID}
		if capNs, ok := want[of]; !ok || capNs < k.CapNs {
			want[of] = k.CapNs
		}
	}
	found := 0
	if err := table.Each(&record.Box{}, func(s index.SeriesCap) {
		found++
		if want[s.Series] != s.MaxCapNs {
			t.Errorf("series %+v ends at %d, want %d", s.Series, s.MaxCapNs, want[s.Series])
		}
	}); err != nil || found != len(want) {
		t.Errorf("%d of %d series: %v", found, len(want), err)
	}
}
