package store

import (
	"testing"
	"time"

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
		for i := range mergepolicy.FanIn - 1 { // so that none is due
			b := sh.batch(rng, rows, 0)
			shiftCaps(b, int64(i)*sh.caps*int64(time.Minute)) // a time of its own
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
		if got := merge.chooseCarried(true); (got > 0) != want {
			t.Errorf("heads of %d rows: %d rows are carried", sealRows, got)
		}
		for i, seg := range merge.run {
			if got := len(merge.carried[i]); want && got < seg.Index.Blocks()/4 {
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

// shiftCaps adds to the caps of rows.
func shiftCaps(b *record.Batch, byNs int64) {
	for k := range b.CapNs {
		b.CapNs[k] += byNs
	}
}

// TestMergeCarriesShapedBlocks: of few devices with long series, a merge of large segments takes
// blocks over as often as it comes, an idle one, too, and counts none of them as carried.
func TestMergeCarriesShapedBlocks(t *testing.T) {
	const rows, devices, segments = 8192, 32, 4
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir, Shards: 1, SealRows: rows, Now: leapingClock(),
		Index: index.Options{BlockRows: 64}})
	m, at := &model{}, 0
	carried := func(whileRowsCome bool) (blocks, rows int) {
		merge := &merger{store: s, run: s.shards[0].State.Load().Sealed}
		indexes := make([]*index.Segment, len(merge.run))
		for i, seg := range merge.run {
			indexes[i] = seg.Index
		}
		var err error
		merge.ranks, err = rankMapOf(merge.run, indexes, make([][]uint64, len(merge.run)))
		if err != nil {
			t.Fatal(err)
		}
		rows = int(merge.chooseCarried(whileRowsCome))
		for _, list := range merge.carried {
			blocks += len(list)
		}
		return blocks, rows
	}
	for round := range segments {
		for range 1 + round/(segments-1) {
			var b record.Batch
			for range rows {
				b.Append(record.Key{CID: 1, MID: int64(at % devices), MOID: 2,
					CapNs: int64(at/devices) * int64(30*time.Minute)}, []byte{byte(at)})
				at++
			}
			m.add(&b, splitByShard(&b, len(s.shards)), mustPut(t, s, &b, WriterSeq{}))
			mustSeal(t, s)
		}
		for _, whileRowsCome := range []bool{true, false} {
			all := s.Stats().Rows / 64
			if blocks, rows := carried(whileRowsCome); int64(blocks) < all*3/4 || rows > 0 {
				t.Errorf("round %d, rows come %v: %d of about %d blocks are carried, %d rows that "+
					"clustering would place better", round, whileRowsCome, blocks, all, rows)
			}
		}
		sh := s.shards[0]
		if err := s.merge(sh, sh.State.Load().Sealed, true); err != nil {
			t.Fatal(err)
		}
		seg := sh.State.Load().Sealed
		if len(seg) != 1 || seg[0].Meta.CarriedRows > 0 {
			t.Errorf("round %d: %d segments, %+v", round, len(seg), seg[0].Meta)
		}
		checkSeriesOf(t, seg[0].Series, m)
		sh2 := shape{cids: 2, mids: devices, moids: 3, caps: 60 * 500}
		checkQueries(t, randomSource(t), s, sh2, m, "merged", 10)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if report := mustCheck(t, dir); report.Damages > 0 {
		t.Errorf("damage: %+v", report.Damage)
	}
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
