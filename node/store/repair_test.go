package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/repair"
	"github.com/pentad-db/pentad/sdk/record"
)

// damagesOf are ways to damage the log of a store of two files.
func damagesOf(t *testing.T, src string) map[string]func(t *testing.T, dir string) {
	t.Helper()
	damages := map[string]func(t *testing.T, dir string){}
	for what, lose := range lostEnds() {
		if strings.Contains(what, "log") {
			damages[what] = lose
		}
	}
	names, err := filepath.Glob(filepath.Join(src, layout.LogDir, "*"))
	if err != nil || len(names) != 2 {
		t.Fatalf("log files %v, %v", names, err)
	}
	for _, name := range names {
		base := filepath.Base(name)
		for at := 100; at < 512*3; at += 512 {
			damages[filepath.Join(base, "corrupted")+string(rune('0'+at/512))] = func(
				t *testing.T, dir string,
			) {
				flipBit(t, filepath.Join(dir, layout.LogDir, base), 8*at)
			}
		}
	}
	return damages
}

// The log of a store is damaged in each of its appends in turn, or loses its end. The store does
// not open and says what to do; a repair says what is lost and changes nothing until it is told to;
// then the store opens with all that came before, takes puts, and the copies can be read.
func TestRepairLog(t *testing.T) {
	src := t.TempDir()
	s := openTest(t, Options{Dir: src, Now: later})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range int64(6) {
		if i == 3 {
			s.log.Roll()
		}
		mustPut(t, s, batchOf(record.Key{MID: 2, CapNs: i}), WriterSeq{})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damages := damagesOf(t, src)
	for what, damage := range damages {
		dir := filepath.Join(t.TempDir(), "store")
		copyDir(t, src, dir)
		if r, err := repair.Log(t.Context(), dir, true); err != nil || r.File != "" {
			t.Fatalf("a repair of what is whole: %+v, %v", r, err)
		}
		damage(t, dir)
		_, _, err := Open(t.Context(), Options{Dir: dir, Now: later})
		if !errors.As(err, new(*durable.CorruptError)) ||
			!strings.Contains(err.Error(), "pentad repair") {
			t.Fatalf("%s: %v", what, err)
		}
		would, err := repair.Log(t.Context(), dir, false)
		if err != nil || would.File == "" || would.Reason == "" || len(would.Aside) > 0 {
			t.Fatalf("%s: %+v, %v", what, would, err)
		}
		did, err := repair.Log(t.Context(), dir, true)
		if err != nil || did.File != would.File || did.Rows != would.Rows {
			t.Fatalf("%s: %+v, %v; it would be %+v", what, did, err, would)
		}
		for _, path := range did.Aside {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		again, report, err := Open(t.Context(), Options{Dir: dir, Now: later})
		if err != nil {
			t.Fatalf("%s: repaired: %v", what, err)
		}
		rows := int(again.Stats().Rows)
		if rows < 1 || rows > 7 || rows+did.Rows > 7 || report.Log.TornFile != "" {
			t.Errorf("%s: %d rows of 7 are left, %+v, %+v", what, rows, did, report)
		}
		mustPut(t, again, batchOf(record.Key{MID: 3}), WriterSeq{})
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if check := mustCheck(t, dir); check.Damages > 0 {
			t.Errorf("%s: repaired: %+v", what, check)
		}
	}
}
