package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/record"
)

// below returns the rows of a model with an acq below a moment.
func (m *model) below(acqNs int64) []modelRow {
	var out []modelRow
	for _, r := range m.rows {
		if r.key.AcqNs < acqNs {
			out = append(out, r)
		}
	}
	return out
}

// Snapshots are taken while rows are written, sealed and merged: each holds exactly the rows below
// its acq, among them all that were acknowledged before; it opens where it lies and as a copy, may
// be written to, and its store never notices.
func TestSnapshotsDuringWrites(t *testing.T) {
	rng := randomSource(t)
	dir := t.TempDir()
	opt := Options{Dir: filepath.Join(dir, "store"), Shards: 2, SealRows: 600, LogFiles: 1,
		Now: leapingClock(), Index: index.Options{BlockRows: 64}}
	s := openTest(t, opt)
	m := &model{}
	var mu sync.Mutex
	var acknowledged atomic.Int64 // the greatest acq
	var wg sync.WaitGroup
	stop := make(chan struct{})
	finish := sync.OnceFunc(func() { close(stop); wg.Wait() })
	t.Cleanup(finish)
	wg.Go(func() {
		sh := shape{cids: 2, mids: 50, moids: 2, caps: 1000, varied: true}
		for i := uint64(1); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			b := sh.batch(rng, 1+rng.IntN(200), time.Now().UnixNano())
			mu.Lock()
			res, err := s.Put(t.Context(), b, WriterSeq{ID: [16]byte{1}, Seq: i})
			if err == nil {
				m.add(b, splitByShard(b, 2), res)
			}
			mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			acknowledged.Store(res.LastAcqNs)
		}
	})
	var infos []layout.Snapshot
	for i := range rounds.Of(6, 6, 2) {
		for s.Stats().Seals < int64(4*i+1) { // at least once, so that there are rows
			if err := s.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		before := acknowledged.Load()
		info, err := s.Snapshot(t.Context(), filepath.Join(dir, string(rune('a'+i))))
		if err != nil || info.AcqNs <= before || info.Bytes == 0 {
			t.Fatalf("%+v, %v; acknowledged %d", info, err, before)
		}
		infos = append(infos, info)
	}
	finish()
	if _, err := s.Snapshot(t.Context(), filepath.Join(dir, "a")); !errors.Is(err, ErrExists) {
		t.Errorf("a second snapshot of one name: %v", err)
	}
	for i, info := range infos {
		checkSnapshot(t, filepath.Join(dir, string(rune('a'+i))), info, m)
	}
	compare(t, "the store", scanRows(t, s, &record.Query{}), m.rows)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if report := mustCheck(t, opt.Dir); report.Damages > 0 {
		t.Fatalf("the store: %+v", report)
	}
	s = openTest(t, opt)
	compare(t, "the store, opened again", scanRows(t, s, &record.Query{}), m.rows)
}

func checkSnapshot(t *testing.T, dir string, info layout.Snapshot, m *model) {
	t.Helper()
	if report := mustCheck(t, dir); report.Damages > 0 || len(report.Notes) > 0 {
		t.Fatalf("%s: %+v", dir, report)
	}
	if read, err := layout.ReadSnapshot(dir); err != nil || read != info {
		t.Fatalf("%s: %+v, %v; want %+v", dir, read, err, info)
	}
	elsewhere := t.TempDir()
	copyDir(t, dir, elsewhere)
	want := m.below(info.AcqNs)
	for _, place := range []string{elsewhere, dir} {
		s, report, err := Open(t.Context(), Options{Dir: place, Now: leapingClock()})
		if err != nil {
			t.Fatalf("%s: %+v, %v", place, report, err)
		}
		compare(t, place, scanRows(t, s, &record.Query{}), want)
		res := mustPut(t, s, batchOf(record.Key{MID: 1}, record.Key{MID: 1e6}), WriterSeq{})
		if res.FirstAcqNs < info.AcqNs {
			t.Errorf("%s: acq %d below %d", place, res.FirstAcqNs, info.AcqNs)
		}
		if err := errors.Join(s.Seal(t.Context()), s.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := layout.ReadSnapshot(place); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a store that was opened is still a snapshot: %v", err)
		}
	}
}

// A retry that was answered before the snapshot is answered by it, too.
func TestSnapshotKnowsWriters(t *testing.T) {
	s := openTest(t, Options{Now: leapingClock()})
	b, w := batchOf(record.Key{MID: 1}), WriterSeq{ID: [16]byte{1}, Seq: 1}
	res := mustPut(t, s, b, w)
	dir := filepath.Join(t.TempDir(), "snapshot")
	if _, err := s.Snapshot(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	again := openTest(t, Options{Dir: dir, Now: leapingClock()})
	res.Duplicate = true
	if got := mustPut(t, again, b, w); got != res {
		t.Errorf("%+v, want %+v", got, res)
	}
	if again.manifest.Store == s.manifest.Store {
		t.Error("a snapshot that was opened takes itself for its store")
	}
}

// What fails leaves nothing under the name.
func TestSnapshotFails(t *testing.T) {
	s := openTest(t, Options{Now: leapingClock()})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	dir := filepath.Join(t.TempDir(), "snapshot")
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(t.Context(), dir); err == nil {
		t.Fatal("a snapshot of a log that failed")
	}
	for _, name := range []string{dir, dir + ".tmp"} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_ = s.Close()
}

// A bit of the file that says up to where a snapshot goes is never taken for another acq.
func TestSnapshotFileIsBent(t *testing.T) {
	s := openTest(t, Options{Now: leapingClock()})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	dir := filepath.Join(t.TempDir(), "snapshot")
	if _, err := s.Snapshot(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, layout.SnapshotFile)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		corrupted := bytes.Clone(whole)
		corrupted[i] ^= 1
		if err := os.WriteFile(name, corrupted, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := layout.ReadSnapshot(dir)
		if damage := (*durable.CorruptError)(nil); !errors.As(err, &damage) ||
			damage.File != name {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	if report := mustCheck(t, dir); report.Damages != 1 || report.Damage[0].File != name {
		t.Errorf("%+v", report)
	}
}
