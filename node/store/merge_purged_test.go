package store

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/record"
)

func boxOf(d record.Dim, from, to int64) record.Box {
	var x record.Box
	x[d] = record.RangeSet{{From: from, To: to}}
	return x
}

func mustErase(t *testing.T, s *Store, box record.Box) int64 {
	t.Helper()
	acq, err := s.Erase(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	return acq
}

func mustPurge(t *testing.T, s *Store, box record.Box) int64 {
	t.Helper()
	acq, err := s.Purge(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	return acq
}

func mustSettle(t *testing.T, s *Store) {
	t.Helper()
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func reopen(t *testing.T, s *Store, opt Options) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return openTest(t, opt)
}

// wantPayloads wants the rows of a view to have these payloads, in the order of their keys.
func wantPayloads(t *testing.T, s *Store, q record.Query, want ...string) {
	t.Helper()
	if err := q.Normalize(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range scanRows(t, s, &q) {
		if r.tomb {
			got = append(got, "tomb")
		} else {
			got = append(got, r.payload)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	count, _, err := s.Count(t.Context(), &q)
	if err != nil || int(count) != len(want) {
		t.Fatalf("count %d, %v, want %d", count, err, len(want))
	}
}

// put1 stores one version of a reading and returns its acq.
func put1(t *testing.T, s *Store, mid, capNs int64, payload string) int64 {
	t.Helper()
	b := &record.Batch{}
	b.Append(record.Key{MID: mid, CapNs: capNs}, []byte(payload))
	return mustPut(t, s, b, WriterSeq{}).FirstAcqNs
}

func tomb1(t *testing.T, s *Store, mid, capNs int64) int64 {
	t.Helper()
	b := &record.Batch{}
	b.AppendTomb(record.Key{MID: mid, CapNs: capNs})
	return mustPut(t, s, b, WriterSeq{}).FirstAcqNs
}

// everywhere runs a check on a store, then with everything sealed, merged and opened again.
func everywhere(t *testing.T, s *Store, opt Options, check func(s *Store)) *Store {
	t.Helper()
	check(s)
	mustSeal(t, s)
	check(s)
	s = reopen(t, s, opt)
	check(s)
	mustSettle(t, s)
	check(s)
	return s
}

func latest() record.Query { return record.Query{View: record.ViewLatest} }

func asOf(acqNs int64) record.Query {
	return record.Query{View: record.ViewAsOf, AsOfAcqNs: acqNs}
}

func inBox(box record.Box) record.Query { return record.Query{Box: box} }

// A tombstone hides what was there, from its acq on, and a later put brings the reading back.
func TestTombstone(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Now: leapingClock()}
	s := openTest(t, opt)
	put1(t, s, 1, 1, "old")
	put1(t, s, 2, 1, "other")
	deleted := tomb1(t, s, 1, 1)
	s = everywhere(t, s, opt, func(s *Store) {
		wantPayloads(t, s, latest(), "other")
		wantPayloads(t, s, asOf(deleted), "old", "other")
		wantPayloads(t, s, asOf(deleted+1), "other")
		wantPayloads(t, s, record.Query{}, "old", "tomb", "other")
	})
	put1(t, s, 1, 1, "new")
	everywhere(t, s, opt, func(s *Store) {
		wantPayloads(t, s, latest(), "new", "other")
		wantPayloads(t, s, record.Query{}, "old", "tomb", "new", "other")
		plugged := &record.Query{Filters: []record.PluginCall{{Name: "f"}}}
		if rows := scanRows(t, s, plugged); len(rows) != 3 {
			t.Fatalf("a plugin sees %d rows", len(rows))
		}
	})
}

// An erase hides what was there from the views that resolve versions, from its own acq on.
func TestErase(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Now: leapingClock()}
	s := openTest(t, opt)
	put1(t, s, 1, 1, "old")
	put1(t, s, 1, 2, "second")
	put1(t, s, 2, 1, "other")
	put1(t, s, 1, 1, "newer")
	erased := mustErase(t, s, boxOf(record.MID, 1, 2))
	s = everywhere(t, s, opt, func(s *Store) {
		wantPayloads(t, s, latest(), "other")
		wantPayloads(t, s, asOf(erased), "newer", "second", "other")
		wantPayloads(t, s, asOf(erased+1), "other")
		wantPayloads(t, s, record.Query{}, "old", "newer", "second", "other")
	})
	put1(t, s, 1, 1, "again")
	everywhere(t, s, opt, func(s *Store) {
		wantPayloads(t, s, latest(), "again", "other")
		wantPayloads(t, s, asOf(erased), "newer", "second", "other")
	})
}

// An erase of what arrived in a time brings the versions from before that time to light again.
func TestEraseOfAnImport(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Now: leapingClock()}
	s := openTest(t, opt)
	put1(t, s, 1, 1, "right")
	first := put1(t, s, 1, 1, "wrong")
	last := tomb1(t, s, 2, 1)
	put1(t, s, 3, 1, "after")
	mustErase(t, s, boxOf(record.Acq, first, last+1))
	everywhere(t, s, opt, func(s *Store) { wantPayloads(t, s, latest(), "right", "after") })
}

// The horizon that was given out before an event is not above its acq, and every scan that sees the
// event has a horizon above it.
func TestHorizonOfEvents(t *testing.T) {
	var wall atomic.Int64
	wall.Store(time.Now().UnixNano())
	opt := Options{Dir: t.TempDir(), Now: wall.Load}
	s := openTest(t, opt)
	put1(t, s, 1, 1, "x")
	for i := range 20 {
		wall.Add(int64(i) * int64(200*time.Millisecond))
		before, err := s.ExtendHorizon(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		acq := mustErase(t, s, boxOf(record.MID, 1, 2))
		after, err := s.ExtendHorizon(t.Context())
		if err != nil || acq < before || after <= acq {
			t.Fatalf("horizon %d, event %d, horizon %d, %v", before, acq, after, err)
		}
		if i%5 == 4 {
			wall.Add(int64(3 * time.Second)) // no lease is waited for
			s = crashAndReopen(t, s, &opt)
			if h, err := s.ExtendHorizon(t.Context()); err != nil || h < after {
				t.Fatalf("horizon %d after a crash, %d before, %v", h, after, err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A purge hides rows from every view at once, and their bytes are in no file once it is done,
// wherever they were and whoever keeps the log.
func TestPurgeRemovesBytes(t *testing.T) {
	secret := []byte("b9ce5b2a-secret-61f0c3")
	opt := Options{Dir: t.TempDir(), Shards: 2, Now: leapingClock()}
	s := openTest(t, opt)
	for round := range 2 {
		for mid := range int64(20) {
			put1(t, s, mid<<8, 1, "public")
			put1(t, s, mid<<8+1, 1, string(secret))
		}
		if round == 0 {
			mustSeal(t, s)
		}
	}
	if !holds(t, opt.Dir, secret) {
		t.Fatal("the test does not look well")
	}
	var box record.Box
	for mid := range int64(20) {
		box[record.MID] = append(box[record.MID], record.At(mid<<8+1))
	}
	acq := mustPurge(t, s, box)
	q := inBox(box)
	q.View, q.AsOfAcqNs = record.ViewAsOf, acq
	wantPayloads(t, s, q)
	wantPayloads(t, s, inBox(box))
	waitPurged(s)
	p := s.Purges()
	if len(p) != 1 || !p[0].Done || p[0].Removed != 40 || p[0].AcqNs != acq {
		t.Fatalf("%+v", p)
	}
	if holds(t, opt.Dir, secret) {
		t.Fatal("a file still holds what was purged")
	}
	check := func() {
		t.Helper()
		if st := s.Stats(); st.Rows != 40 {
			t.Fatalf("%d rows are left", st.Rows)
		}
		wantPayloads(t, s, inBox(box))
		stats, err := s.Scan(t.Context(), &q, func(int) (Sink, error) { return nil, nil })
		if err != nil || stats.HistoryChangedAcqNs != acq {
			t.Fatalf("purged %d, want %d, %v", stats.HistoryChangedAcqNs, acq, err)
		}
		other := inBox(boxOf(record.MID, 0, 1))
		_, stats, err = s.Count(t.Context(), &other)
		if err != nil || stats.HistoryChangedAcqNs != 0 {
			t.Fatalf("purged %d, %v", stats.HistoryChangedAcqNs, err)
		}
	}
	check()
	s = reopen(t, s, opt)
	check()
}

// waitPurged waits until every purge is done.
func waitPurged(s *Store) {
	for slices.ContainsFunc(s.Purges(), func(e event.Event) bool { return !e.Done }) {
		runtime.Gosched()
	}
}

// holds reports whether a file of a directory holds bytes.
func holds(t *testing.T, dir string, what []byte) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, what)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Everything is purged, again and again: no segment is left, and the log goes on where it was.
func TestPurgeEverything(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Shards: 2, Now: leapingClock()}
	s := openTest(t, opt)
	for round := range 3 {
		for mid := range int64(10) {
			put1(t, s, mid<<8, 1, "x")
			if round == 1 {
				mustSeal(t, s)
			}
		}
		mustPurge(t, s, record.Box{})
		put1(t, s, 3<<8, 2, "left")
		if round == 2 {
			s = crashAndReopen(t, s, &opt)
		}
		waitPurged(s)
		s = reopen(t, s, opt)
		wantPayloads(t, s, record.Query{}, "left")
		mustSettle(t, s)
		if st := s.Stats(); st.Rows != 1 || st.Segments != 1 {
			t.Fatalf("%d rows in %d segments", st.Rows, st.Segments)
		}
		s = reopen(t, s, opt)
		wantPayloads(t, s, record.Query{}, "left")
		mustPurge(t, s, record.Box{})
		mustSettle(t, s)
		if st := s.Stats(); st.Rows != 0 || st.Segments != 0 {
			t.Fatalf("%d rows in %d segments", st.Rows, st.Segments)
		}
		s = reopen(t, s, opt)
		wantPayloads(t, s, record.Query{})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Blocks of which every row is hidden are not opened, and blocks beside them are counted as before.
func TestHiddenBlocksAreNotOpened(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Now: leapingClock()})
	b := &record.Batch{}
	for i := range int64(1 << 16) {
		b.Append(record.Key{CID: int32(i & 1), MID: i >> 1, CapNs: i}, make([]byte, 8))
	}
	mustPut(t, s, b, WriterSeq{})
	mustSeal(t, s)
	mustErase(t, s, boxOf(record.CID, 1, 2))
	q := &record.Query{View: record.ViewLatest, Box: boxOf(record.CID, 1, 2)}
	n, stats, err := s.Count(t.Context(), q)
	if err != nil || n != 0 || stats.BlocksScanned != 0 {
		t.Fatalf("%d rows, %d blocks, %v", n, stats.BlocksScanned, err)
	}
	n, stats, err = s.Count(t.Context(), &record.Query{Box: boxOf(record.CID, 0, 1)})
	if err != nil || n != 1<<15 || stats.BlocksScanned != 0 {
		t.Fatalf("%d rows, %d blocks, %v", n, stats.BlocksScanned, err)
	}
}

// After an event that may be on disk or not, nothing is stored; a new Open tells.
func TestFailedEvent(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Now: leapingClock()}
	s, _, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	put1(t, s, 1, 1, "x")
	if err := s.manifest.Close(); err != nil { // every edit fails from now on
		t.Fatal(err)
	}
	_, err = s.Erase(t.Context(), record.Box{})
	if !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), batchOf(record.Key{MID: 2}), WriterSeq{}); !errors.Is(err,
		ErrFailed) {
		t.Fatal(err)
	}
	wantPayloads(t, s, latest(), "x")
	_ = s.Close() // says that the manifest is closed
	s = openTest(t, opt)
	wantPayloads(t, s, latest(), "x")
	mustErase(t, s, record.Box{})
	wantPayloads(t, s, latest())
}

// Boxes that make no sense, and more events than a store takes, are refused and change nothing.
func TestRefusedEvents(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Now: leapingClock()})
	put1(t, s, 1, 1, "x")
	var invalid *record.InvalidError
	if _, err := s.Erase(t.Context(), boxOf(record.Cap, 5, 5)); !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	s.manifestMu.Lock()
	s.manifest.Events = make([]event.Event, manifest.MaxEvents)
	s.manifestMu.Unlock()
	if _, err := s.Erase(t.Context(), record.Box{}); !errors.Is(err, manifest.ErrTooManyEvents) {
		t.Fatal(err)
	}
	s.manifestMu.Lock()
	s.manifest.Events = nil
	s.manifestMu.Unlock()
	if h, err := s.ExtendHorizon(t.Context()); err != nil || h == math.MinInt64 {
		t.Fatal(h, err)
	}
	put1(t, s, 1, 2, "y")
	wantPayloads(t, s, latest(), "x", "y")
}

// A backup goes on holding what was purged after it was made, but no store that is restored from it
// shows that, and none keeps it. Erases are in force in stores of later moments only.
func TestRestoreKeepsEvents(t *testing.T) {
	secret := "b9ce5b2a-secret-61f0c3"
	s := openTest(t, Options{Dir: t.TempDir(), Now: leapingClock()})
	to := t.TempDir()
	back := func() {
		t.Helper()
		if _, err := archive.Backup(t.Context(), s, to, 0); err != nil {
			t.Fatal(err)
		}
	}
	put1(t, s, 1, 1, secret)
	put1(t, s, 2, 1, "public")
	early := tomb1(t, s, 4, 1) + 1
	back()
	mustPurge(t, s, boxOf(record.MID, 1, 2))
	waitPurged(s)
	put1(t, s, 3, 1, "late")
	erased := mustErase(t, s, boxOf(record.MID, 2, 3))
	back()
	f := func(until int64, want ...string) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "restored")
		_, err := archive.Restore(t.Context(), to, dir, until)
		if err != nil {
			t.Fatal(err)
		}
		r := openTest(t, Options{Dir: dir, Now: leapingClock()})
		wantPayloads(t, r, inBox(boxOf(record.MID, 1, 2)))
		wantPayloads(t, r, inBox(boxOf(record.MID, 4, 5)), "tomb")
		wantPayloads(t, r, latest(), want...)
		waitPurged(r)
		wantPayloads(t, r, latest(), want...)
		if holds(t, dir, []byte(secret)) {
			t.Fatal("a file still holds what was purged")
		}
		put1(t, r, 1, 1, "new")
		wantPayloads(t, r, latest(), append([]string{"new"}, want...)...)
	}
	f(0, "late")
	f(erased, "public", "late")
	f(early, "public")
}

// TestPurgeOfTheNewestRows leaves a segment that describes itself rightly.
func TestPurgeOfTheNewestRows(t *testing.T) {
	s := openTest(t, Options{})
	var b record.Batch
	for i := range 100 {
		b.Append(record.Key{CID: 1, MID: int64(i)}, []byte("12345678"))
	}
	mustPut(t, s, &b, WriterSeq{})
	mustSeal(t, s)
	if _, err := s.Purge(t.Context(), record.Box{record.MID: {{From: 90, To: 100}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	report, err := s.Verify(t.Context(), check.Options{})
	if err != nil || report.Damages > 0 || report.Rows != 90 {
		t.Fatalf("%+v, %v", report, err)
	}
}
