package store

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/record"
)

// restoreTest restores a backup and compares it with the model, in every view.
func restoreTest(t *testing.T, from string, untilNs int64, m *model) *Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	report, err := Restore(t.Context(), from, dir, RestoreOptions{UntilAcqNs: untilNs})
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
	m.add(b, splitByShard(b, 2), mustPut(r.t, s, b, WriterSeq{[16]byte{1}, r.seq}))
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
	part, err := r.store.Backup(r.t.Context(), r.to, BackupOptions{})
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
			Index: index.Options{BlockRows: 64}, regionBytes: 20_000}}
	r.store = openTest(t, r.opt)
	parts := 6
	if testing.Short() {
		parts = 3
	}
	for range parts {
		r.part()
	}
	report, err := CheckBackup(t.Context(), r.to, CheckOptions{})
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
	if _, err = restored.Backup(t.Context(), r.to, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	restoreTest(t, r.to, 0, known)
	_, err = r.store.Backup(t.Context(), r.to, BackupOptions{})
	if !errors.Is(err, ErrBackupGap) {
		t.Errorf("a backup goes on with the rows of another store: %v", err)
	}
}

// A part that is missing is damage, and the others are read.
func TestCheckBackupFindsGaps(t *testing.T) {
	s := openTest(t, Options{Now: leapingClock()})
	to := t.TempDir()
	for mid := range int64(3) {
		mustPut(t, s, batchOf(record.Key{MID: mid}), WriterSeq{})
		if _, err := s.Backup(t.Context(), to, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := BackupParts(to)
	if err != nil || len(parts) != 3 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for _, missing := range []int{1, 0} { // between others; then the last one is alone
		if err := os.RemoveAll(parts[missing].dir); err != nil {
			t.Fatal(err)
		}
		report, err := CheckBackup(t.Context(), to, CheckOptions{})
		if err != nil || report.Damages != 1 || report.Bytes == 0 ||
			filepath.Dir(report.Damage[0].File) != parts[2].dir ||
			!strings.Contains(report.Damage[0].Reason, "missing") {
			t.Errorf("without part %d: %+v, %v", missing, report, err)
		}
	}
}

// A restored store knows which batches it holds, and no others.
func TestRestoreKnowsWriters(t *testing.T) {
	s := openTest(t, Options{Now: leapingClock()})
	to := t.TempDir()
	w := func(seq uint64) WriterSeq { return WriterSeq{[16]byte{1}, seq} }
	first := mustPut(t, s, batchOf(record.Key{MID: 1}), w(1))
	second := mustPut(t, s, batchOf(record.Key{MID: 2}), w(2))
	if _, err := s.Backup(t.Context(), to, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, until := range []int64{0, second.FirstAcqNs} {
		dir := filepath.Join(t.TempDir(), "store")
		opt := RestoreOptions{UntilAcqNs: until}
		if _, err := Restore(t.Context(), to, dir, opt); err != nil {
			t.Fatal(err)
		}
		again := openTest(t, Options{Dir: dir, Now: leapingClock()})
		if got := mustPut(t, again, batchOf(record.Key{MID: 1}), w(1)); !got.Duplicate ||
			got.FirstAcqNs != first.FirstAcqNs {
			t.Errorf("until %d: %+v", until, got)
		}
		got := mustPut(t, again, batchOf(record.Key{MID: 2}), w(2))
		if got.Duplicate != (until == 0) {
			t.Errorf("until %d: %+v", until, got)
		}
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
		if _, err := s.Backup(t.Context(), to, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return to, s, m
}

// Missing parts, missing files and every corrupted one are refused before anything is written.
func TestRestoreRefuses(t *testing.T) {
	whole, _, _ := backupOf(t)
	rng := randomSource(t)
	f := func(what string, want error, change func(parts, files []string) error) {
		t.Helper()
		from := t.TempDir()
		copyDir(t, whole, from)
		parts, _ := filepath.Glob(filepath.Join(from, "part-*"))
		files, _ := filepath.Glob(filepath.Join(from, "part-*", "*"))
		if err := change(parts, files); err != nil || len(parts) != 3 {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "store")
		_, err := Restore(t.Context(), from, dir, RestoreOptions{})
		var damage *segment.CorruptError
		if want != nil && !errors.Is(err, want) || want == nil && !errors.As(err, &damage) {
			t.Errorf("%s: %v", what, err)
		}
		for _, name := range []string{dir, dir + ".tmp"} {
			if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s left %s: %v", what, name, err)
			}
		}
	}
	remove := func(i int) func(parts, _ []string) error {
		return func(parts, _ []string) error { return os.RemoveAll(parts[i]) }
	}
	f("no first part", ErrBackupGap, remove(0))
	f("no second part", ErrBackupGap, remove(1))
	f("no part", os.ErrNotExist, func(parts, _ []string) error {
		return errors.Join(os.RemoveAll(parts[0]), os.RemoveAll(parts[1]), os.RemoveAll(parts[2]))
	})
	f("a part twice", nil, func(parts, _ []string) error {
		return os.Rename(parts[1], parts[1]+"1")
	})
	for range 40 {
		f("corrupted", nil, func(_, files []string) error {
			name := files[rng.IntN(len(files))]
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text[rng.IntN(len(text))] ^= 1 << rng.IntN(8)
			return os.WriteFile(name, text, 0o644)
		})
	}
	for i := range 9 {
		want := error(nil)
		f("missing", want, func(_, files []string) error {
			if filepath.Base(files[i%len(files)]) == partFile {
				return os.WriteFile(files[i%len(files)], nil, 0o644)
			}
			return os.Remove(files[i%len(files)])
		})
	}
	dir := t.TempDir()
	if _, err := Restore(t.Context(), whole, dir, RestoreOptions{}); !errors.Is(err, ErrExists) {
		t.Errorf("into a directory that is there: %v", err)
	}
	if _, err := Restore(t.Context(), whole, filepath.Join(dir, "x"),
		RestoreOptions{UntilAcqNs: later() * 2}); err == nil {
		t.Error("rows that the backup does not have")
	}
}

// A backup ends at any place: it is as if it had not begun, also when the process was killed, and
// the next run writes the part.
func TestBackupInterrupted(t *testing.T) {
	to, s, m := backupOf(t)
	rng := randomSource(t)
	b := shape{cids: 2, mids: 30, moids: 2, caps: 200}.batch(rng, 300, 0)
	m.add(b, splitByShard(b, 2), mustPut(t, s, b, WriterSeq{}))
	stop := errors.New("stop")
	for steps := 0; ; steps++ {
		killed := t.TempDir()
		left := steps
		_, err := s.Backup(t.Context(), to, BackupOptions{Progress: func(int64, int64) error {
			if left--; left >= 0 {
				return nil
			}
			copyDir(t, to, killed)
			return stop
		}})
		if err == nil {
			if steps < 3 {
				t.Fatalf("only %d steps", steps)
			}
			break
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		for _, dir := range []string{to, killed} {
			if parts, err := BackupParts(dir); err != nil || len(parts) != 3 {
				t.Fatalf("%d parts, %v", len(parts), err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(to, "*.tmp")); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		if steps%2 == 0 {
			if _, err := s.Backup(t.Context(), killed, BackupOptions{}); err != nil {
				t.Fatal(err)
			}
			restoreTest(t, killed, 0, m)
		}
	}
	restoreTest(t, to, 0, m)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Backup(ctx, to, BackupOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Backups of a running store and of its snapshots continue each other; one of a snapshot that was
// opened as a store of its own does not.
func TestBackupOfSnapshots(t *testing.T) {
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
		opt := BackupOptions{UntilAcqNs: info.AcqNs}
		part, err := copied.Backup(t.Context(), to, opt)
		if err != nil || part.UntilAcqNs != info.AcqNs {
			t.Fatalf("%+v, %v", part, err)
		}
		if part, err := copied.Backup(t.Context(), to, opt); part != nil || err != nil {
			t.Errorf("nothing new: %+v, %v", part, err)
		}
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Backup(t.Context(), to, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
		restoreTest(t, to, 0, m)
		restoreTest(t, to, info.AcqNs, m)
	}
	own := openTest(t, Options{Dir: dir, Now: leapingClock()})
	if _, err := own.Backup(t.Context(), to, BackupOptions{}); !errors.Is(err, ErrBackupGap) {
		t.Errorf("of a snapshot that is a store: %v", err)
	}
}

// A damaged block is not carried into a backup.
func TestBackupRefusesDamage(t *testing.T) {
	opt := Options{Dir: filledDir(t), Now: leapingClock()}
	path := filesOf(t, opt.Dir)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[40] ^= 1
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, opt)
	to := t.TempDir()
	_, err = s.Backup(t.Context(), to, BackupOptions{})
	var damage *segment.CorruptError
	if !errors.As(err, &damage) || damage.File != path {
		t.Error(err)
	}
	if parts, err := BackupParts(to); err != nil || len(parts) != 0 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
}

// A damaged part is not continued: of the newest each changed byte is found, of older ones what is
// missing or has another size. Restore names the file, and no offset, which it does not know.
func TestBackupRefusesDamagedParts(t *testing.T) {
	to, s, _ := backupOf(t)
	parts, err := BackupParts(to)
	if err != nil || len(parts) != 3 {
		t.Fatal(len(parts), err)
	}
	mustPut(t, s, shape{cids: 2, mids: 30, moids: 2, caps: 200}.batch(randomSource(t), 300, 0),
		WriterSeq{})
	f := func(what string, part *BackupPart, want string, change func(text []byte) []byte) {
		t.Helper()
		path := filepath.Join(part.dir, part.Files[0].Name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bent := change(bytes.Clone(text)); bent == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, bent, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, backup := s.Backup(t.Context(), to, BackupOptions{})
		_, restore := Restore(t.Context(), to, filepath.Join(t.TempDir(), "x"), RestoreOptions{})
		for _, err := range []error{backup, restore} {
			var damage *segment.CorruptError
			if !errors.As(err, &damage) || damage.File != path ||
				!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "offset") {
				t.Errorf("%s: %v, want %q of %s", what, err, want, path)
			}
		}
		if !errors.Is(backup, ErrPartDamaged) {
			t.Errorf("%s: %v", what, backup)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cut := func(text []byte) []byte { return text[:len(text)-1] }
	gone := func([]byte) []byte { return nil }
	f("cut", parts[0], "bytes; ", cut)
	f("gone", parts[1], "the file is missing", gone)
	f("cut", parts[2], "bytes; ", cut)
	f("gone", parts[2], "the file is missing", gone)
	f("bent", parts[2], "its checksum differs", func(text []byte) []byte {
		text[len(text)/2] ^= 1
		return text
	})
	if part, err := s.Backup(t.Context(), to, BackupOptions{}); err != nil || part == nil {
		t.Errorf("after it is whole again: %v, %v", part, err)
	}
}

func FuzzParsePart(f *testing.F) {
	p := &BackupPart{Format: partFormat, Store: "a", Shards: 1, UntilAcqNs: 9, Rows: 2,
		Writers: backupFile{Name: layout.WritersFile}, Files: []backupFile{{Name: "1.seg", Bytes: 1,
			Rows: 2, FirstAcqNs: 3, LastAcqNs: 4}}}
	f.Add(appendPart(nil, p))
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := parsePart(text); err == nil {
			if again, err := parsePart(appendPart(nil, p)); err != nil || again.Rows != p.Rows {
				t.Fatalf("%+v became %+v, %v", p, again, err)
			}
		}
	})
}
