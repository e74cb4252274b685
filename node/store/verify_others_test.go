package store

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/damage"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/record"
)

// spoilers damage or remove files of a running store that are no segments.
func spoilers(t *testing.T, s *Store) map[string]func() {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bend := func(name string) {
		data, err := os.ReadFile(name)
		check(err)
		data[len(data)/2] ^= 4
		writeOver(t, name, data)
	}
	manifest := filepath.Join(s.opt.Dir, layout.ManifestFile)
	writers := filepath.Join(s.opt.Dir, layout.WritersFile)
	newest := func() string {
		return s.log.Path(slices.Max(slices.Collect(maps.Keys(s.log.Files()))))
	}
	return map[string]func(){
		"the newest log file is removed": func() { check(os.Remove(newest())) },
		"the newest log file is cut":     func() { check(os.Truncate(newest(), 700)) },
		"a bit of the log is flipped":    func() { bend(newest()) },
		"MANIFEST is removed":            func() { check(os.Remove(manifest)) },
		"MANIFEST is emptied":            func() { check(os.Truncate(manifest, 0)) },
		"a bit of MANIFEST is flipped":   func() { bend(manifest) },
		"WRITERS is removed":             func() { check(os.Remove(writers)) },
		"a bit of WRITERS is flipped":    func() { bend(writers) },
	}
}

// Files of a running store other than segments are damaged or removed. What they held is in memory:
// it is named, as a problem, too, and written again, so that nothing is lost at a kill.
func TestOtherFilesAreWrittenAgain(t *testing.T) {
	src := filledDir(t)
	count := func(s *Store) uint64 {
		n, _, err := s.Count(t.Context(), &record.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for what := range spoilers(t, openTest(t, Options{Dir: filledDir(t), Now: leapingClock()})) {
		dir := filepath.Join(t.TempDir(), "store")
		copyDir(t, src, dir)
		s := openTest(t, Options{Dir: dir, Now: leapingClock()})
		id := WriterSeq{ID: [16]byte{9}, Seq: 1}
		mustPut(t, s, batchOf(record.Key{CID: 7, MID: 1}, record.Key{CID: 7, MID: 2}), id)
		want := count(s)
		spoilers(t, s)[what]()
		report, err := s.Verify(t.Context(), check.Options{})
		if err != nil || report.Damages == 0 {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
		if all := s.Problems(); len(all) == 0 || all[0].Code != "file_damaged" ||
			all[0].Advice != damage.AdviceRewritten {
			t.Errorf("%s: problems %+v", what, all)
		}
		killed := filepath.Join(t.TempDir(), "store")
		copyDir(t, dir, killed) // as a kill leaves it
		again := openTest(t, Options{Dir: killed, Now: leapingClock()})
		if got := count(again); got != want {
			t.Errorf("%s: %d records, want %d", what, got, want)
		}
		if res, err := again.Put(t.Context(), batchOf(record.Key{CID: 8}), id); err != nil ||
			!res.Duplicate {
			t.Errorf("%s: an answer is forgotten: %+v, %v", what, res, err)
		}
		if report, err := s.Verify(t.Context(), check.Options{}); err != nil || report.Damages > 0 {
			t.Errorf("%s: it is damaged again: %+v, %v", what, report, err)
		}
		if all := s.Problems(); len(all) > 0 {
			t.Errorf("%s: problems stay: %+v", what, all)
		}
		if err := errors.Join(s.Close(), again.Close()); err != nil {
			t.Error(err)
		}
	}
}
