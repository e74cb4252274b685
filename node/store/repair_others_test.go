package store

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/repair"
	"github.com/pentad-db/pentad/sdk/record"
)

// A file is damaged that no repair mends. The store does not open, and a repair says the same:
// which file, where, what is affected and the way out; and it changes nothing.
func TestDamageNamesTheWayOut(t *testing.T) {
	src := t.TempDir()
	s := openTest(t, Options{Dir: src, Shards: 1, Now: later})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{ID: [16]byte{1}, Seq: 1})
	mustSeal(t, s)
	if err := errors.Join(s.writers.Save(src), s.Close()); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(src, "*"+layout.SegmentSuffix))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v, %v", segments, err)
	}
	seg := filepath.Base(segments[0])
	f := func(file string, at int, affected string) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "store")
		copyDir(t, src, dir)
		path := filepath.Join(dir, file)
		if at < 0 {
			at += int(fileSize(t, path))
		}
		flipBit(t, path, 8*at)
		_, _, err := Open(t.Context(), Options{Dir: dir, Now: later})
		said := func(what string, err error) {
			t.Helper()
			var damage *durable.CorruptError
			if !errors.As(err, &damage) || damage.File != path {
				t.Fatalf("%s of a damaged %s: %v", what, file, err)
			}
			for _, want := range []string{damage.Error(), affected, "restore a backup",
				"pentad repair cannot mend it", "a cluster replaces the replica"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s of a damaged %s: %v; want %q", what, file, err, want)
				}
			}
		}
		said("open", err)
		for _, do := range []bool{false, true} {
			r, err := repair.Log(t.Context(), dir, do)
			if r.File != "" || r.Aside != nil {
				t.Errorf("repair of a damaged %s: %+v", file, r)
			}
			said("repair", errors.Join(err, r.Other))
		}
	}
	f(layout.ManifestFile, 20, "nothing of the store can be read")
	f(layout.WritersFile, 12, "would be stored twice")
	f(seg, 10, "it has 1 records, up to acq ")
	f(seg, -3, "it has 1 records, up to acq ")
}
