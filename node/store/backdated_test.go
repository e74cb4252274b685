package store

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

func below1(t *testing.T, s *Store, mid, capNs, acqNs int64, payload string) PutBackdatedResult {
	t.Helper()
	b := &record.Batch{}
	b.AppendStamped(record.Key{MID: mid, CapNs: capNs, AcqNs: acqNs}, []byte(payload))
	res, err := s.PutBackdated(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestPutBackdatedVersions: rows from below take the places that their acqs give them among
// versions that are there, with a flag or without, and among those that come later.
func TestPutBackdatedVersions(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Now: leapingClock()}
	s := openTest(t, opt)
	first := put1(t, s, 1, 1, "first")
	second := put1(t, s, 1, 1, "second")
	put1(t, s, 2, 1, "other")
	mustSeal(t, s)
	below1(t, s, 1, 1, 10, "ten")
	below1(t, s, 1, 1, first+1, "between")
	below1(t, s, 3, 1, -5, "before 1970")
	below1(t, s, 2, 1, 7, "hidden from the start")
	s = everywhere(t, s, opt, func(s *Store) {
		t.Helper()
		wantPayloads(t, s, latest(), "second", "other", "before 1970")
		if report, err := s.Verify(t.Context(), check.Options{}); err != nil || report.Damages > 0 {
			t.Errorf("%+v, %v", report, err)
		}
		last := latest()
		last.Last = 1
		wantPayloads(t, s, last, "second", "other", "before 1970")
		wantPayloads(t, s, asOf(second), "between", "hidden from the start", "before 1970")
		wantPayloads(t, s, asOf(first+1), "first", "hidden from the start", "before 1970")
		wantPayloads(t, s, asOf(first), "ten", "hidden from the start", "before 1970")
		wantPayloads(t, s, asOf(10), "hidden from the start", "before 1970")
		wantPayloads(t, s, inBox(boxOf(record.Acq, 10, 11)), "ten")
		wantPayloads(t, s, inBox(boxOf(record.Acq, -5, 0)), "before 1970")
		wantPayloads(t, s, record.Query{}, "ten", "first", "between", "second",
			"hidden from the start", "other", "before 1970")
	})
	put1(t, s, 3, 1, "after")
	tomb1(t, s, 1, 1)
	below1(t, s, 1, 1, second+1, "above the second")
	everywhere(t, s, opt, func(s *Store) {
		t.Helper()
		wantPayloads(t, s, latest(), "other", "after")
	})
}

// TestPutBackdatedTells: what the answers were that the put may have changed is to be seen.
func TestPutBackdatedTells(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Now: leapingClock()}
	s := openTest(t, opt)
	put1(t, s, 1, 1, "a")
	before, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	res := below1(t, s, 1, 1, 10, "ten")
	if res.Stored != 1 || res.PutNs < before {
		t.Fatalf("%+v, horizon %d", res, before)
	}
	if st := s.Stats(); st.BackdatedPuts != 1 || st.BackdatedRows != 1 || st.Rows != 2 {
		t.Errorf("%+v", st)
	}
	everywhere(t, s, opt, func(s *Store) {
		t.Helper()
		f := func(box record.Box, want int64) {
			t.Helper()
			_, stats, err := s.Count(t.Context(), &record.Query{Box: box})
			if err != nil || stats.HistoryChangedAcqNs != want {
				t.Errorf("purged %d, want %d: %v", stats.HistoryChangedAcqNs, want, err)
			}
		}
		f(record.Box{}, res.PutNs)
		f(boxOf(record.Acq, 10, 11), res.PutNs)
		f(boxOf(record.Acq, 11, before), 0)
		f(boxOf(record.MID, 2, 3), 0)
	})
}

// TestPutBackdatedRefuses what is no place below the horizon, or another record's.
func TestPutBackdatedRefuses(t *testing.T) {
	s := openTest(t, Options{})
	acq := put1(t, s, 1, 1, "a")
	put := func(acqs ...int64) error {
		b := &record.Batch{}
		for i, acq := range acqs {
			b.AppendStamped(record.Key{MID: 1, CapNs: 1, AcqNs: acq}, []byte{byte(i)})
		}
		_, err := s.PutBackdated(t.Context(), b)
		return err
	}
	var invalid *record.InvalidError
	f := func(what string, err error, part string) {
		t.Helper()
		if part == "" && !errors.Is(err, ErrOtherPayload) {
			t.Errorf("%s: %v", what, err)
		}
		if part != "" && (!errors.As(err, &invalid) || invalid.Part != part) {
			t.Errorf("%s: %v", what, err)
		}
	}
	const year = int64(365 * 24 * time.Hour)
	f("the future", put(time.Now().UnixNano()+year), "acq")
	f("the past and the future", put(5, time.Now().UnixNano()+year), "acq")
	f("the reserved maximum", put(math.MaxInt64), "acq")
	f("another payload of what was put", put(acq), "")
	f("two payloads", put(7, 7), "")
	f("another payload of what was put from below", errors.Join(put(8), put(9, 8)), "")
	_, err := s.PutBackdated(t.Context(), batchOf(record.Key{CID: 1}))
	f("no acq", err, "acq")
	_, err = s.PutBackdated(t.Context(), &record.Batch{})
	f("no record", err, "batch")
	if rows := scanRows(t, s, &record.Query{}); len(rows) != 2 {
		t.Errorf("%d rows", len(rows))
	}
	c := openTest(t, Options{})
	if _, err := c.PutRange(t.Context(), rangeOf("a", 0, 10, 3)); err != nil {
		t.Fatal(err)
	}
	small := &record.Batch{}
	small.AppendStamped(record.Key{AcqNs: 5}, nil)
	if _, err := c.PutBackdated(t.Context(), small); !errors.Is(err, ErrIsCopy) {
		t.Errorf("into a copy: %v", err)
	}
}

// TestPutBackdatedDuringScans: while rows come from below to several shards, each view shows all
// rows of a put or none, and no reading twice.
func TestPutBackdatedDuringScans(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Shards: 4, SealRows: 500})
	const devices = 300
	puts, scans := 20, 60
	if testing.Short() {
		puts, scans = 6, 20
	}
	now := &record.Batch{}
	for i := range int64(devices) {
		now.Append(record.Key{MID: i << 8, CapNs: 1}, []byte("now"))
	}
	mustPut(t, s, now, WriterSeq{})
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range puts {
				b := &record.Batch{}
				for k := range int64(devices) {
					b.AppendStamped(record.Key{MID: k << 8, CapNs: 1, AcqNs: int64(i)*2 +
						int64(w) - 20}, fmt.Append(nil, i))
				}
				if _, err := s.PutBackdated(t.Context(), b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range scans {
		if rows := scanRows(t, s, &record.Query{View: record.ViewLatest}); len(rows) != devices ||
			rows[0].payload != "now" {
			t.Fatalf("%d rows of %d devices, %+v", len(rows), devices, rows[0])
		}
		if rows := scanRows(t, s, &record.Query{}); len(rows)%devices != 0 {
			t.Fatalf("%d rows: a part of a put", len(rows))
		}
	}
	wg.Wait()
	if n := len(scanRows(t, s, &record.Query{})); n != (1+2*puts)*devices {
		t.Fatalf("%d rows", n)
	}
}

// TestPutBackdatedSnapshot: a read state and a backup have what came from below, in files and in
// the log, and a later part all that came since.
func TestPutBackdatedSnapshot(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Now: leapingClock()}
	s := openTest(t, opt)
	put1(t, s, 1, 1, "now")
	below1(t, s, 1, 1, 10, "sealed")
	mustSeal(t, s)
	below1(t, s, 2, 1, 10, "log")
	dir, to := filepath.Join(t.TempDir(), "snapshot"), t.TempDir()
	if _, err := s.Snapshot(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	part := func(aside bool) {
		t.Helper()
		p, err := archive.Backup(t.Context(), s, to, 0)
		if err != nil || (p.Aside != nil) != aside {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	part(true)
	part(false)
	below1(t, s, 3, 1, 5, "later")
	part(true)
	mustPurge(t, s, boxOf(record.MID, 2, 3))
	part(false)
	wantPayloads(t, openTest(t, Options{Dir: dir, Now: leapingClock()}), record.Query{},
		"sealed", "now", "log")
	f := func(until int64, want ...string) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "restored")
		_, err := archive.Restore(t.Context(), to, dir, until)
		if err != nil {
			t.Fatal(err)
		}
		r := openTest(t, Options{Dir: dir, Now: leapingClock()})
		wantPayloads(t, r, record.Query{}, want...)
		mustSettle(t, r)
		waitPurged(r)
		wantPayloads(t, r, record.Query{}, want...)
		if check := mustCheck(t, s.opt.Dir); check.Damages > 0 {
			t.Error(check.Damage)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f(0, "sealed", "now", "later")
	f(8, "later")
}

// TestPutBackdatedPurged: what was purged or has expired stays away, also when the purge is long
// done.
func TestPutBackdatedPurged(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Now: leapingClock(), retainEvery: time.Hour})
	put1(t, s, 1, 1, "a")
	mustPurge(t, s, boxOf(record.MID, 1, 2))
	waitPurged(s)
	if res := below1(t, s, 1, 1, 10, "b"); res.Purged != 1 || res.Stored != 0 || res.PutNs != 0 {
		t.Errorf("%+v", res)
	}
	below1(t, s, 2, 1, 10, "c")
	cid := int32(0)
	err := s.SetRetention(t.Context(), retention.Rule{CID: &cid, MaxAcqAgeNs: int64(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if res := below1(t, s, 3, 1, 10, "d"); res.Purged != 1 {
		t.Errorf("%+v", res)
	}
	wantPayloads(t, s, record.Query{})
	mustErase(t, s, boxOf(record.MID, 4, 5))
	acq := put1(t, s, 4, 1, "e")
	below1(t, s, 4, 1, acq-1, "f")
	wantPayloads(t, s, latest(), "e")
	wantPayloads(t, s, record.Query{}, "f", "e")
}

// TestPutBackdatedMerges: segments whose acqs lie among one another are merged, tile by tile,
// into one, without what was purged.
func TestPutBackdatedMerges(t *testing.T) {
	rounds.NotUnderRace(t, "TestModelLong does the same")
	rng := randomSource(t)
	opt := Options{Dir: t.TempDir(), Shards: 2, Now: leapingClock(), retainEvery: time.Hour,
		Index: index.Options{BlockRows: 64}, TileBytes: 8_000}
	s, m := openTest(t, opt), &model{}
	sh := shape{cids: 3, mids: 40, moids: 2, caps: 60, varied: true}
	for i := range 12 {
		b := sh.batch(rng, 200, 0)
		m.add(b, splitByShard(b, 2), mustPut(t, s, b, WriterSeq{}))
		for range 3 {
			sh.putBelow(t, rng, s, m)
		}
		if i == 6 {
			sh.purge(t, rng, s, m)
		}
		mustSeal(t, s)
	}
	mustSettle(t, s)
	for _, sh := range s.allShards[2:] {
		if n := len(sh.State.Load().Sealed); n == 0 || n > 8 {
			t.Errorf("%d segments aside of 13 that were sealed", n)
		}
	}
	compare(t, "everything", scanRows(t, s, &record.Query{}), m.query(&record.Query{}))
	for range 60 {
		q := sh.query(rng, m)
		compare(t, "a box", scanRows(t, s, q), m.query(q))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if report := mustCheck(t, opt.Dir); report.Damages > 0 {
		t.Fatalf("%+v", report)
	}
}

// TestPutBackdatedDuringClose: a backdated put that a Close overtakes is refused.
func TestPutBackdatedDuringClose(t *testing.T) {
	const rows, shards = 30_000, 8
	for round := range 10 {
		s, _, err := Open(t.Context(), Options{Dir: t.TempDir(), Shards: shards})
		if err != nil {
			t.Fatal(err)
		}
		begun := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for put := 0; err == nil; put++ {
				b := &record.Batch{}
				for i := range rows {
					at := int64(put*rows + i)
					b.AppendStamped(record.Key{MID: at, CapNs: at, AcqNs: at}, nil)
				}
				if put == 1 {
					close(begun)
				}
				_, err = s.PutBackdated(t.Context(), b)
			}
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
		<-begun
		for since := time.Now(); time.Since(since) < time.Duration(round)*2*time.Millisecond; {
			runtime.Gosched()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}
