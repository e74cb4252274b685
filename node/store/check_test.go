package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/dump"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// filledDir makes the directory of a store with sealed segments, log files and writers.
func filledDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	rng := randomSource(t)
	s := openTest(t, Options{Dir: dir, Shards: 2, Now: leapingClock(),
		Index: index.Options{BlockRows: 64}})
	for i := range 12 {
		sh := shape{cids: 2, mids: 30, moids: 2, caps: 100, varied: i%2 == 0}
		b := sh.batch(rng, 1+rng.IntN(100), time.Now().UnixNano())
		mustPut(t, s, b, WriterSeq{ID: [16]byte{1}, Seq: uint64(i + 1)})
		if i%4 == 3 && i < 10 {
			if err := s.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustCheck(t *testing.T, dir string) api.CheckReport {
	t.Helper()
	report, err := check.Directory(t.Context(), dir, check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// filesOf lists the files of a store.
func filesOf(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.seg", "log/*.log", layout.ManifestFile,
		layout.WritersFile} {
		some, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	return files
}

func TestCheckFindsNothingInAWholeStore(t *testing.T) {
	dir := filledDir(t)
	report := mustCheck(t, dir)
	if report.Damages != 0 || len(report.Notes) != 0 {
		t.Fatalf("%+v", report)
	}
	if report.Segments != 4 || report.Rows == 0 || report.LogRows == 0 || report.Bytes == 0 {
		t.Fatalf("%+v", report)
	}
	for _, path := range filesOf(t, dir) {
		one, err := check.File(t.Context(), path, check.Options{})
		if err != nil || one.Damages != 0 {
			t.Errorf("%s: %+v, %v", path, one, err)
		}
	}
	s := openTest(t, Options{Dir: dir})
	_, err := check.Directory(t.Context(), dir, check.Options{})
	if !errors.Is(err, layout.ErrLocked) {
		t.Errorf("a store in use: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = check.Directory(t.Context(), t.TempDir(), check.Options{})
	if !errors.Is(err, layout.ErrNoStore) {
		t.Errorf("an empty directory: %v", err)
	}
}

// Bits are flipped all over every kind of file: a check names the file, and a dump of it ends with
// an error.
func TestCheckFindsEveryBit(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bits in one goroutine")
	dir := filledDir(t)
	rng := randomSource(t)
	for _, path := range filesOf(t, dir) {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range fewer(60) {
			at := rng.IntN(len(whole))
			corrupted := append([]byte(nil), whole...)
			corrupted[at] ^= 1 << rng.IntN(8)
			if err := os.WriteFile(path, corrupted, 0o644); err != nil {
				t.Fatal(err)
			}
			report := mustCheck(t, dir)
			named := false
			for _, d := range report.Damage {
				named = named || d.File == path && d.Offset <= int64(len(whole))
			}
			if !named {
				t.Fatalf("%s: byte %d is corrupted: %+v", path, at, report)
			}
			err := dump.File(path, dump.Options{Blocks: true, Rows: rng.IntN(2) == 0},
				func(any) error { return nil })
			if err == nil {
				t.Fatalf("%s: byte %d is corrupted, and the dump is whole", path, at)
			}
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Several files are damaged at once: a check names all of them.
func TestCheckGoesOn(t *testing.T) {
	dir := filledDir(t)
	files := filesOf(t, dir)
	for _, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole[20] ^= 1
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]bool{}
	for _, d := range mustCheck(t, dir).Damage {
		found[d.File] = true
	}
	for _, path := range files {
		if !found[path] {
			t.Errorf("%s is not named", path)
		}
	}
}

// Files that are whole and do not belong together are found.
func TestCheckComparesFiles(t *testing.T) {
	f := func(what string, change func(dir string, files []string) error) {
		t.Helper()
		dir := filledDir(t)
		if err := change(dir, filesOf(t, dir)); err != nil {
			t.Fatal(err)
		}
		if report := mustCheck(t, dir); report.Damages == 0 {
			t.Errorf("%s: %+v", what, report)
		}
	}
	f("a segment is gone", func(_ string, files []string) error { return os.Remove(files[1]) })
	f("a segment in place of another", func(_ string, files []string) error {
		return os.Rename(files[0], files[1])
	})
	f("the log is gone", func(dir string, _ []string) error {
		return os.RemoveAll(filepath.Join(dir, layout.LogDir))
	})
	f("the writers are gone", func(dir string, _ []string) error {
		return os.Remove(filepath.Join(dir, layout.WritersFile))
	})
	f("the log lacks its beginning", func(dir string, _ []string) error {
		m, err := os.ReadFile(filepath.Join(dir, layout.ManifestFile))
		if err != nil {
			return err
		}
		one, _, _ := manifest.Open(dir, 1, "")
		line := manifest.AppendEdit(nil, manifest.Edit{Number: one.Number + 1,
			Remove: []uint64{one.Live[len(one.Live)-1].ID}})
		_ = one.Close()
		return os.WriteFile(filepath.Join(dir, layout.ManifestFile), append(m, line...), 0o644)
	})
}

func TestDumpRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("not a file of a store"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := dump.File(path, dump.Options{}, func(any) error { return nil })
	if !errors.Is(err, check.ErrUnknownFile) {
		t.Error(err)
	}
	_, err = check.File(t.Context(), path, check.Options{})
	if !errors.Is(err, check.ErrUnknownFile) {
		t.Error(err)
	}
}

// What a dump says of all rows is what a scan says.
func TestDumpRows(t *testing.T) {
	dir := filledDir(t)
	rows := map[record.Key]bool{}
	lines := 0
	for _, path := range filesOf(t, dir) {
		err := dump.File(path, dump.Options{Rows: true}, func(line any) error {
			if row, ok := line.(dump.Row); ok {
				lines++
				rows[record.Key{CID: row.CID, MID: row.MID, MOID: row.MOID, CapNs: row.CapNs,
					AcqNs: row.AcqNs}] = true
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	s := openTest(t, Options{Dir: dir, Now: later})
	if n := int(s.Stats().Rows); len(rows) != n || lines < n {
		t.Errorf("%d rows in %d lines, want %d", len(rows), lines, n)
	}
}
