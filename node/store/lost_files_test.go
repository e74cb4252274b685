package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// removers remove or replace files of a running store.
func removers(t *testing.T, s *Store) map[string]func() {
	t.Helper()
	remove := func(names ...string) func() {
		return func() {
			t.Helper()
			for _, name := range names {
				if err := os.RemoveAll(filepath.Join(s.opt.Dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	replace := func(name string) func() {
		return func() {
			t.Helper()
			name := filepath.Join(s.opt.Dir, name)
			data, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(name+".other", data, 0o600)
			}
			if err == nil {
				err = os.Rename(name+".other", name)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	newest := 0
	for number := range s.log.Files() {
		newest = max(newest, int(number))
	}
	log, err := filepath.Rel(s.opt.Dir, s.log.Path(uint64(newest)))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func(){
		"the newest log file is removed":  remove(log),
		"the newest log file is replaced": replace(log),
		"MANIFEST is removed":             remove(layout.ManifestFile),
		"MANIFEST is replaced":            replace(layout.ManifestFile),
		"WRITERS is removed":              remove(layout.WritersFile),
		"LOCK is removed":                 remove(layout.LockFile),
		"all of these are removed": remove(log, layout.ManifestFile, layout.WritersFile,
			layout.LockFile),
		"the directory of the log is": remove(layout.LogDir),
		"the whole directory is":      remove("."),
	}
}

// openToFail opens a store that does not close without an error, as its log fails.
func openToFail(t *testing.T, dir string) *Store {
	t.Helper()
	s, _, err := Open(t.Context(), Options{Dir: dir, Now: leapingClock()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Files of a running store are removed or replaced. What is in no segment is written again; where
// that cannot be, no put is acknowledged any more.
func TestLostFiles(t *testing.T) {
	src := filledDir(t)
	count := func(s *Store) uint64 {
		n, _, err := s.Count(t.Context(), &record.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	open := func(what string) *Store {
		dir := filepath.Join(t.TempDir(), "store")
		copyDir(t, src, dir)
		s := openToFail(t, dir)
		mustPut(t, s, batchOf(record.Key{CID: 7, MID: 1}, record.Key{CID: 7, MID: 2}), WriterSeq{})
		if err := s.FindLostFiles(t.Context()); err != nil || len(s.Problems()) > 0 {
			t.Fatalf("before %s: %v, %+v", what, err, s.Problems())
		}
		return s
	}
	for what := range removers(t, open("all")) {
		s := open(what)
		want := count(s)
		removers(t, s)[what]()
		err := s.FindLostFiles(t.Context())
		if got := count(s); got != want {
			t.Errorf("%s: it answers %d records, want %d", what, got, want)
		}
		all := s.Problems()
		if gone := what[:3] == "the" && what[len(what)-2:] == "is"; gone {
			if !errors.Is(err, wal.ErrFailed) || len(all) != 1 ||
				all[0].Code != "log_failed" || !all[0].NotReady || all[0].Restart ||
				all[0].Advice != adviceGone {
				t.Errorf("%s: %v, problems %+v", what, err, all)
			}
			if _, err := s.Put(t.Context(), batchOf(record.Key{CID: 8}), WriterSeq{}); err == nil {
				t.Errorf("%s: a put is acknowledged", what)
			}
			continue
		}
		if named := len(all) > 0 && all[0].Code == "file_damaged"; err != nil ||
			named == (what == "LOCK is removed") {
			t.Errorf("%s: %v, problems %+v", what, err, all)
		}
		if _, err := layout.Lock(s.opt.Dir); !errors.Is(err, layout.ErrLocked) {
			t.Errorf("%s: another process could open it: %v", what, err)
		}
		mustPut(t, s, batchOf(record.Key{CID: 8}), WriterSeq{})
		killed := filepath.Join(t.TempDir(), "store")
		copyDir(t, s.opt.Dir, killed)
		if got := count(openTest(t, Options{Dir: killed, Now: leapingClock()})); got != want+1 {
			t.Errorf("%s: %d records after a kill, want %d", what, got, want+1)
		}
	}
}

// A segment that was removed is damaged, until it is put back; the store goes on.
func TestALostSegmentIsDamaged(t *testing.T) {
	s := openTest(t, Options{Dir: filledDir(t), Now: leapingClock()})
	path := s.segmentPath(s.liveSegments()[0].ID)
	for _, step := range []struct {
		to      string
		damaged int
	}{{path + ".away", 1}, {path, 0}} {
		from := path
		if step.to == path {
			from = path + ".away"
		}
		if err := os.Rename(from, step.to); err != nil {
			t.Fatal(err)
		}
		err := s.FindLostFiles(t.Context())
		if all := s.Damage(); err != nil || len(all) != step.damaged {
			t.Errorf("moved to %s: %v, %v", step.to, all, err)
		}
		mustPut(t, s, batchOf(record.Key{CID: 7}), WriterSeq{})
	}
}

// A process that takes the lock first, after it was removed, has the directory: the store stops.
func TestALostLockThatAnotherTook(t *testing.T) {
	s := openToFail(t, filledDir(t))
	if err := os.Remove(filepath.Join(s.opt.Dir, layout.LockFile)); err != nil {
		t.Fatal(err)
	}
	other, err := layout.Lock(s.opt.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := s.FindLostFiles(t.Context()); !errors.Is(err, wal.ErrFailed) {
		t.Error(err)
	}
}
