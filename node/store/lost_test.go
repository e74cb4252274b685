package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/repair"
	"github.com/pentad-db/pentad/sdk/record"
)

// lostEnds are ways to lose the end of what a store wrote: each leaves files that are whole.
func lostEnds() map[string]func(t *testing.T, dir string) {
	logs := func(t *testing.T, dir string) []string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, layout.LogDir, "*"))
		if err != nil || len(names) < 2 {
			t.Fatalf("log files %v, %v", names, err)
		}
		return names
	}
	cut := func(t *testing.T, name string, size func(data []byte) int) {
		t.Helper()
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.Truncate(name, int64(size(data)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return map[string]func(t *testing.T, dir string){
		"the newest log file is missing": func(t *testing.T, dir string) {
			names := logs(t, dir)
			if err := os.Remove(names[len(names)-1]); err != nil {
				t.Fatal(err)
			}
		},
		"all log files are missing": func(t *testing.T, dir string) {
			for _, name := range logs(t, dir) {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		},
		"the newest log file is empty": func(t *testing.T, dir string) {
			names := logs(t, dir)
			cut(t, names[len(names)-1], func([]byte) int { return 0 })
		},
		"the newest log file is cut after an append": func(t *testing.T, dir string) {
			names := logs(t, dir)
			cut(t, names[len(names)-1], func(data []byte) int { return len(data) - 2*sector.Size })
		},
		"the newest log file is cut inside an append": func(t *testing.T, dir string) {
			names := logs(t, dir)
			cut(t, names[len(names)-1], func(data []byte) int {
				return len(data) - 2*sector.Size - 9
			})
		},
		"the newest log file ends with zeros": func(t *testing.T, dir string) {
			names := logs(t, dir)
			name := names[len(names)-1]
			data, err := os.ReadFile(name)
			if err == nil {
				clear(data[len(data)-2*sector.Size:])
				err = os.WriteFile(name, data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"the manifest lacks its last line": func(t *testing.T, dir string) {
			name := filepath.Join(dir, layout.ManifestFile)
			cut(t, name, func(data []byte) int {
				return bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
			})
		},
		"the manifest is cut inside its last line": func(t *testing.T, dir string) {
			cut(t, dir+"/"+layout.ManifestFile, func(data []byte) int { return len(data) - 9 })
		},
	}
}

// A store that was closed loses the end of its log or of its manifest. What is left is whole, and
// each file by itself could be that of a store that wrote less; but they know of one another: the
// store does not open, and a check names the file.
func TestALostEndIsNoticed(t *testing.T) {
	src := t.TempDir()
	s := openTest(t, Options{Dir: src, Now: later})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	s.log.Roll()
	for i := range int64(5) {
		mustPut(t, s, batchOf(record.Key{MID: 2, CapNs: i}), WriterSeq{})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, lose := range lostEnds() {
		dir := filepath.Join(t.TempDir(), "store")
		copyDir(t, src, dir)
		if report := mustCheck(t, dir); report.Damages != 0 {
			t.Fatalf("before anything is lost: %+v", report)
		}
		lose(t, dir)
		if report := mustCheck(t, dir); report.Damages == 0 {
			t.Errorf("%s: a check finds %+v", what, report)
		}
		lost, _, err := Open(t.Context(), Options{Dir: dir, Now: later})
		var damage *durable.CorruptError
		if !errors.As(err, &damage) || filepath.Dir(damage.File) != dir &&
			filepath.Dir(damage.File) != filepath.Join(dir, layout.LogDir) {
			t.Errorf("%s: the store opens, %v", what, err)
		}
		if err == nil {
			_ = lost.Close()
		}
	}
}

// What the log holds is in no segment yet, its first file is lost, and those that are left hold
// none of it, or there are none: nothing but the manifest knows of it.
func TestALostBeginningIsNoticed(t *testing.T) {
	for _, closed := range []bool{false, true} {
		src, dir := t.TempDir(), filepath.Join(t.TempDir(), "store")
		s := openTest(t, Options{Dir: src, Now: later})
		mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
		if closed {
			s.log.Roll() // as a snapshot does; closing writes into the next file
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		copyDir(t, src, dir)
		if report := mustCheck(t, dir); report.Damages != 0 {
			t.Fatalf("before anything is lost: %+v", report)
		}
		if err := os.Remove(filepath.Join(dir, layout.LogDir, "0000000001.log")); err != nil {
			t.Fatal(err)
		}
		if report := mustCheck(t, dir); report.Damages == 0 {
			t.Errorf("closed %t: a check finds %+v", closed, report)
		}
		lost, _, err := Open(t.Context(), Options{Dir: dir, Now: later})
		if !errors.As(err, new(*durable.CorruptError)) {
			t.Errorf("closed %t: the store opens, %v", closed, err)
		}
		if err == nil {
			_ = lost.Close()
		}
		if report, err := repair.Log(t.Context(), dir, true); err != nil || report.File == "" {
			t.Fatalf("closed %t: a repair: %+v, %v", closed, report, err)
		}
		if err := openTest(t, Options{Dir: dir, Now: later}).Close(); err != nil {
			t.Fatal(err)
		}
	}
}
