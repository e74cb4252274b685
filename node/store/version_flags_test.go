package store

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
)

// flagged returns how many rows of the sealed segments are flagged, and of how many.
func flagged(s *Store) (flagged, rows int) {
	for _, sh := range s.shards {
		state := sh.Pin()
		defer state.Unpin()
		for _, seg := range state.Sealed {
			for i := range seg.Index.Blocks() {
				flagged += int(seg.Index.Block(uint32(i)).Flagged)
			}
			rows += seg.Index.Rows()
		}
	}
	return flagged, rows
}

// TestBackfillIsNotFlagged loads one device after the other: all but the first device of each
// bucket look like corrections, and none is.
func TestBackfillIsNotFlagged(t *testing.T) {
	rounds.NotUnderRace(t, "it counts flags of rows")
	const devices, readings = 1500, 40
	s := openTest(t, Options{Shards: 1, HeadShards: 1, Index: index.Options{BlockRows: 256}})
	unconfirmed := 0
	for part := range int64(4) {
		b := &record.Batch{}
		for device := range int64(devices) {
			for i := range int64(readings) {
				b.Append(record.Key{MID: (part*devices + device) * 1000,
					CapNs: i * int64(time.Hour)}, nil)
			}
		}
		mustPut(t, s, b, WriterSeq{})
		unconfirmed += len(s.shards[0].State.Load().Head.Shards[0].UnconfirmedFlags())
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got, rows := flagged(s)
	if rows != 4*devices*readings || unconfirmed < rows/10 {
		t.Fatalf("%d of %d rows were unconfirmed: the test tests nothing", unconfirmed, rows)
	}
	if got != 0 {
		t.Errorf("%d of %d rows are flagged, %d were unconfirmed", got, rows, unconfirmed)
	}
}

// TestLateRowsAreNotFlagged puts batches as several writers do, not in the order of their caps: no
// row is a correction, but for one.
func TestLateRowsAreNotFlagged(t *testing.T) {
	const batches, devices = 40, 100
	s := openTest(t, Options{Shards: 1, HeadShards: 1, Index: index.Options{BlockRows: 256}})
	put := func(minute int64, payload string) {
		b := &record.Batch{}
		for device := range int64(devices) {
			b.Append(record.Key{MID: device, CapNs: minute * int64(time.Minute)}, []byte(payload))
		}
		mustPut(t, s, b, WriterSeq{})
	}
	for i := range int64(batches) {
		put(i^3, "a")
	}
	put1(t, s, 7, 0, "b")
	late := s.shards[0].State.Load().Head.Shards[0].Flagged()
	check := func() {
		t.Helper()
		q := latest()
		q.Box = boxOf(record.MID, 7, 8)
		q.Box[record.Cap] = record.RangeSet{record.At(0)}
		wantPayloads(t, s, q, "b")
		q = latest()
		if n, _, err := s.Count(t.Context(), &q); err != nil || n != batches*devices {
			t.Errorf("%d readings, %v; want %d", n, err, batches*devices)
		}
	}
	check()
	mustSeal(t, s)
	check()
	got, rows := flagged(s)
	if rows != batches*devices+1 || late < rows/2 {
		t.Fatalf("%d of %d rows came late: the test tests nothing", late, rows)
	}
	if got < 1 || got > 2 {
		t.Errorf("%d of %d rows are flagged, %d came late; one reading has two versions", got, rows,
			late)
	}
}

// TestFlagsAtSeal wants a flag on every row that has an older version, and none on rows whose cap
// is above all that their series had before, where tables tell.
func TestFlagsAtSeal(t *testing.T) {
	rng := randomSource(t)
	for _, series := range []int64{3, 40, 3000} { // with 3000 the segments have no tables
		s := openTest(t, Options{Shards: 1, Index: index.Options{BlockRows: 64}})
		newest, known := map[index.Series]int64{}, map[record.Key]bool{}
		for range 5 {
			b := &record.Batch{}
			for range 1000 {
				b.Append(record.Key{MID: rng.Int64N(series), MOID: int32(rng.IntN(2)),
					CapNs: rng.Int64N(300) + int64(b.Len())/4}, nil)
			}
			mustPut(t, s, b, WriterSeq{})
			checkFlags(t, s, newest, known)
		}
	}
}

// checkFlags seals the head and holds the flags of its rows against what was there before.
func checkFlags(
	t *testing.T, s *Store, newest map[index.Series]int64, known map[record.Key]bool,
) {
	t.Helper()
	sh := s.shards[0]
	rows := new(record.Batch)
	flags, unconfirmed := sh.State.Load().Head.ReadAllUnconfirmed(rows)
	older := sh.Pin()
	defer older.Unpin()
	tables := true
	for _, seg := range older.Sealed {
		tables = tables && seg.Series != nil
	}
	versions.ClearFalse(flags, rows, unconfirmed, older.Sealed, nil)
	own := map[index.Series]int64{}
	for i := range rows.Len() {
		k := rows.Key(i)
		k.AcqNs = 0
		id := index.Series{CID: k.CID, MOID: k.MOID, MID: k.MID}
		before, had := newest[id]
		mine, has := own[id]
		is := flags[i>>6]>>(i&63)&1 == 1
		if known[k] && !is {
			t.Fatalf("row %d, %v: a new version, and no flag", i, k)
		}
		if is && tables && (!had || k.CapNs > before) && (!has || k.CapNs > mine) {
			t.Fatalf("row %d, %v: flagged, and above all caps of its series", i, k)
		}
		known[k] = true
		if !has || k.CapNs > mine {
			own[id] = k.CapNs
		}
	}
	for id, capNs := range own {
		if before, had := newest[id]; !had || capNs > before {
			newest[id] = capNs
		}
	}
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
}
