package store

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// restoreTest restores a backup and compares it with the model, in every view.
func restoreTest(t *testing.T, from string, untilNs int64, m *model) *Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	report, err := archive.Restore(t.Context(), from, dir, untilNs)
	if err != nil {
		t.Fatal(err)
	}
	was := &model{rows: m.below(report.UntilAcqNs)}
	if untilNs != 0 && report.UntilAcqNs != untilNs || report.Rows != int64(len(was.rows)) {
		t.Fatalf("%+v, want %d rows below %d", report, len(was.rows), untilNs)
	}
	if check := mustCheck(t, dir); check.Damages > 0 || len(check.Notes) > 0 {
		t.Fatalf("%+v", check)
	}
	s := openTest(t, Options{Dir: dir, Now: leapingClock()})
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		q := &record.Query{View: view}
		compare(t, "restored", scanRows(t, s, q), was.query(q))
	}
	return s
}

// backupRun is a store with its model, and the ends of the parts of its backup.
type backupRun struct {
	t     *testing.T
	rng   *rand.Rand
	opt   Options
	store *Store
	model *model
	seq   uint64
	to    string
	ends  []int64
}

func (r *backupRun) put(s *Store, m *model) {
	r.seq++
	sh := shape{cids: 2, mids: 30, moids: 2, caps: 200, varied: true}
	b := sh.batch(r.rng, 1+r.rng.IntN(200), time.Now().UnixNano())
	m.add(b, splitByShard(b, 2), mustPut(r.t, s, b, WriterSeq{ID: [16]byte{1}, Seq: r.seq}))
}

// part writes, seals or merges something and backs it up while more is written.
func (r *backupRun) part() {
	r.t.Helper()
	for range 1 + r.rng.IntN(8) {
		r.put(r.store, r.model)
	}
	if r.rng.IntN(2) == 0 {
		sh := shape{cids: 2, mids: 30, moids: 2, caps: 200, varied: true}
		sh.putBelow(r.t, r.rng, r.store, r.model)
	}
	var err error
	switch r.rng.IntN(4) {
	case 0:
		err = r.store.WaitForMerges(r.t.Context())
	case 1:
		err = r.store.Seal(r.t.Context())
	case 2:
		err = r.store.Close()
		r.store = openTest(r.t, r.opt)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 5 {
			r.put(r.store, r.model)
		}
	})
	part, err := archive.Backup(r.t.Context(), r.store, r.to, 0)
	wg.Wait()
	if err != nil {
		r.t.Fatal(err)
	}
	before := int64(math.MinInt64)
	if len(r.ends) > 0 {
		before = r.ends[len(r.ends)-1]
	}
	if part.FromAcqNs != before {
		r.t.Fatalf("%+v follows %d", part, before)
	}
	r.ends = append(r.ends, part.UntilAcqNs)
}

// A backup is continued again and again while rows are written, sealed and merged. Restored up to
// the end of any part, or to any moment, it is what the store was then; restored stores go on.
func TestBackupDuringWrites(t *testing.T) {
	r := &backupRun{t: t, rng: randomSource(t), model: &model{},
		to: filepath.Join(t.TempDir(), "backups", "node"),
		opt: Options{Dir: t.TempDir(), Shards: 2, SealRows: 400, Now: leapingClock(),
			Index: index.Options{BlockRows: 64}, TileBytes: 20_000}}
	r.store = openTest(t, r.opt)
	for range rounds.Of(6, 4, 3) {
		r.part()
	}
	report, err := archive.Check(t.Context(), r.to)
	if err != nil || report.Damages > 0 || report.Bytes == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	known := &model{rows: r.model.below(r.ends[len(r.ends)-1])}
	for range 4 {
		restoreTest(t, r.to, known.rows[1+r.rng.IntN(len(known.rows)-1)].key.AcqNs, known)
	}
	for _, end := range r.ends {
		restoreTest(t, r.to, end, known)
	}
	restored := restoreTest(t, r.to, 0, known)
	for range 10 {
		r.put(restored, known)
	}
	if err := restored.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	compare(t, "restored and written to", scanRows(t, restored, &record.Query{}), known.rows)
	r.put(r.store, r.model) // one of the two may continue the backup
	if _, err = archive.Backup(t.Context(), restored, r.to, 0); err != nil {
		t.Fatal(err)
	}
	restoreTest(t, r.to, 0, known)
	_, err = archive.Backup(t.Context(), r.store, r.to, 0)
	if !errors.Is(err, archive.ErrGap) {
		t.Errorf("a backup goes on with the rows of another store: %v", err)
	}
}

// backupOf makes a backup of three parts.
func backupOf(t *testing.T) (to string, s *Store, m *model) {
	t.Helper()
	rng := randomSource(t)
	s = openTest(t, Options{Shards: 2, Now: leapingClock(), Index: index.Options{BlockRows: 64}})
	m, to = &model{}, t.TempDir()
	for range 3 {
		b := shape{cids: 2, mids: 30, moids: 2, caps: 200}.batch(rng, 300, 0)
		m.add(b, splitByShard(b, 2), mustPut(t, s, b, WriterSeq{}))
		if _, err := archive.Backup(t.Context(), s, to, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return to, s, m
}

// Backups of a running store and of its snapshots continue each other; one of a snapshot that was
// opened as a stand-alone store does not.
func TestBackupOfSnapshots(t *testing.T) {
	rounds.NotUnderRace(t, "TestBackupDuringWrites and TestSnapshotsDuringWrites do both")
	to, s, m := backupOf(t)
	rng := randomSource(t)
	var dir string
	for range 3 {
		b := shape{cids: 2, mids: 30, moids: 2, caps: 200}.batch(rng, 100, 0)
		m.add(b, splitByShard(b, 2), mustPut(t, s, b, WriterSeq{}))
		dir = filepath.Join(t.TempDir(), "snapshot")
		info, err := s.Snapshot(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		b = shape{cids: 2, mids: 30, moids: 2, caps: 200}.batch(rng, 100, 0)
		m.add(b, splitByShard(b, 2), mustPut(t, s, b, WriterSeq{}))
		copied, _, err := OpenSnapshot(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		part, err := archive.Backup(t.Context(), copied, to, info.AcqNs)
		if err != nil || part.UntilAcqNs != info.AcqNs {
			t.Fatalf("%+v, %v", part, err)
		}
		part, err = archive.Backup(t.Context(), copied, to, info.AcqNs)
		if part != nil || err != nil {
			t.Errorf("nothing new: %+v, %v", part, err)
		}
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Backup(t.Context(), s, to, 0); err != nil {
			t.Fatal(err)
		}
		restoreTest(t, to, 0, m)
		restoreTest(t, to, info.AcqNs, m)
	}
	own := openTest(t, Options{Dir: dir, Now: leapingClock()})
	if _, err := archive.Backup(t.Context(), own, to, 0); !errors.Is(err, archive.ErrGap) {
		t.Errorf("of a snapshot that is a store: %v", err)
	}
}
