package archive

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
)

// backupOf makes a backup of three parts.
func backupOf(t *testing.T) (to string, s *store.Store) {
	t.Helper()
	rng := randomSource(t)
	s, to = openTest(t, store.Options{Shards: 2}), t.TempDir()
	for range 3 {
		mustPut(t, s, randomBatch(rng, 300), store.WriterSeq{})
		if _, err := Backup(t.Context(), s, to, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return to, s
}

// A part that is missing is damage, and the others are read.
func TestCheckBackupFindsGaps(t *testing.T) {
	s := openTest(t, store.Options{})
	to := t.TempDir()
	for mid := range int64(3) {
		mustPut(t, s, batchOf(mid), store.WriterSeq{})
		if _, err := Backup(t.Context(), s, to, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := Parts(to)
	if err != nil || len(parts) != 3 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for _, missing := range []int{1, 0} { // between others; then the last one is alone
		if err := os.RemoveAll(parts[missing].dir); err != nil {
			t.Fatal(err)
		}
		report, err := Check(t.Context(), to, check.Options{})
		if err != nil || report.Damages != 1 || report.Bytes == 0 ||
			filepath.Dir(report.Damage[0].File) != parts[2].dir ||
			!strings.Contains(report.Damage[0].Reason, "missing") {
			t.Errorf("without part %d: %+v, %v", missing, report, err)
		}
	}
}

// A restored store knows which batches it holds, and no others.
func TestRestoreKnowsWriters(t *testing.T) {
	s := openTest(t, store.Options{})
	to := t.TempDir()
	w := func(seq uint64) store.WriterSeq { return store.WriterSeq{ID: [16]byte{1}, Seq: seq} }
	first := mustPut(t, s, batchOf(1), w(1))
	second := mustPut(t, s, batchOf(2), w(2))
	if _, err := Backup(t.Context(), s, to, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, until := range []int64{0, second.FirstAcqNs} {
		dir := filepath.Join(t.TempDir(), "store")
		opt := RestoreOptions{UntilAcqNs: until}
		if _, err := Restore(t.Context(), to, dir, opt); err != nil {
			t.Fatal(err)
		}
		again := openTest(t, store.Options{Dir: dir})
		if got := mustPut(t, again, batchOf(1), w(1)); !got.Duplicate ||
			got.FirstAcqNs != first.FirstAcqNs {
			t.Errorf("until %d: %+v", until, got)
		}
		got := mustPut(t, again, batchOf(2), w(2))
		if got.Duplicate != (until == 0) {
			t.Errorf("until %d: %+v", until, got)
		}
	}
}

// Missing parts, missing files and every corrupted one are refused before anything is written.
func TestRestoreRefuses(t *testing.T) {
	whole, _ := backupOf(t)
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
		var damage *durable.CorruptError
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
	f("no first part", ErrGap, remove(0))
	f("no second part", ErrGap, remove(1))
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
	_, err := Restore(t.Context(), whole, dir, RestoreOptions{})
	if !errors.Is(err, store.ErrExists) {
		t.Errorf("into a directory that is there: %v", err)
	}
	if _, err := Restore(t.Context(), whole, filepath.Join(dir, "x"),
		RestoreOptions{UntilAcqNs: math.MaxInt64}); err == nil {
		t.Error("rows that the backup does not have")
	}
}

// A backup ends at any place: it is as if it had not begun, also when the process was killed, and
// the next run writes the part.
func TestBackupInterrupted(t *testing.T) {
	to, s := backupOf(t)
	mustPut(t, s, randomBatch(randomSource(t), 300), store.WriterSeq{})
	stop := errors.New("stop")
	for steps := 0; ; steps++ {
		killed := t.TempDir()
		left := steps
		_, err := Backup(t.Context(), s, to, BackupOptions{Progress: func(int64, int64) error {
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
			if parts, err := Parts(dir); err != nil || len(parts) != 3 {
				t.Fatalf("%d parts, %v", len(parts), err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(to, "*.tmp")); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		if steps%2 == 0 {
			if _, err := Backup(t.Context(), s, killed, BackupOptions{}); err != nil {
				t.Fatal(err)
			}
			restoreTest(t, killed, s)
		}
	}
	restoreTest(t, to, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Backup(ctx, s, to, BackupOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A damaged block is not carried into a backup.
func TestBackupRefusesDamage(t *testing.T) {
	opt := store.Options{Dir: t.TempDir()}
	s := openTest(t, opt)
	mustPut(t, s, randomBatch(randomSource(t), 300), store.WriterSeq{})
	if err := errors.Join(s.Seal(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(opt.Dir, layout.SegmentName(1))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[40] ^= 1
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, opt)
	to := t.TempDir()
	_, err = Backup(t.Context(), s, to, BackupOptions{})
	var damage *durable.CorruptError
	if !errors.As(err, &damage) || damage.File != path {
		t.Error(err)
	}
	if parts, err := Parts(to); err != nil || len(parts) != 0 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
}

// A damaged part is not continued: of the newest each changed byte is found, of older ones what is
// missing or has another size. Restore names the file, and no offset, which it does not know.
func TestBackupRefusesDamagedParts(t *testing.T) {
	to, s := backupOf(t)
	parts, err := Parts(to)
	if err != nil || len(parts) != 3 {
		t.Fatal(len(parts), err)
	}
	mustPut(t, s, randomBatch(randomSource(t), 300), store.WriterSeq{})
	f := func(what string, part *Part, want string, change func(text []byte) []byte) {
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
		_, backup := Backup(t.Context(), s, to, BackupOptions{})
		_, restore := Restore(t.Context(), to, filepath.Join(t.TempDir(), "x"), RestoreOptions{})
		for _, err := range []error{backup, restore} {
			var damage *durable.CorruptError
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
	if part, err := Backup(t.Context(), s, to, BackupOptions{}); err != nil || part == nil {
		t.Errorf("after it is whole again: %v, %v", part, err)
	}
}

func FuzzParsePart(f *testing.F) {
	p := &Part{Format: partFormat, Store: "a", Shards: 1, UntilAcqNs: 9, Rows: 2,
		Writers: file{Name: layout.WritersFile}, Files: []file{{Name: "1.seg", Bytes: 1,
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
