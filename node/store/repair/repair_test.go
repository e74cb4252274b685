package repair

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/writers"
)

// TestRepairForgetsWriters: a repair that cut the log up to an acq leaves out of WRITERS the edges
// whose newest batch may have been cut, and makes no such file.
func TestRepairForgetsWriters(t *testing.T) {
	dir := t.TempDir()
	r := &repair{dir: dir, manifest: &manifest.Manifest{NextAcqNs: 150}, keptNs: 100}
	if err := r.forgetWriters(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, layout.WritersFile)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a file is made: %v", err)
	}
	table := writers.New[struct{}]()
	kept, cut := writers.Seq{ID: [16]byte{1}, Seq: 1, Persistent: true},
		writers.Seq{ID: [16]byte{2}, Seq: 1, Persistent: true}
	table.Record(kept, writers.Result{Seq: 1, FirstNs: 149, Records: 1})
	table.Record(cut, writers.Result{Seq: 1, FirstNs: 150, Records: 1})
	if err := table.Save(dir); err != nil {
		t.Fatal(err)
	}
	again := writers.New[struct{}]()
	if err := cmp.Or(r.forgetWriters(), again.Load(dir)); err != nil {
		t.Fatal(err)
	}
	if again.Count() != 1 || again.Follows(kept.Writer(), 1) != nil {
		t.Errorf("%d are known", again.Count())
	}
}
