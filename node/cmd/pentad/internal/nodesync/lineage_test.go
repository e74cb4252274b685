package nodesync_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// image copies the directory of a node that runs, as it is on the disk.
func (s *served) image() string {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), "image")
	if err := os.CopyFS(dir, os.DirFS(s.opt.Dir)); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// putBack starts the node with another directory.
func (s *served) putBack(dir string) {
	s.t.Helper()
	s.stop()
	s.opt.Dir = dir
	s.start()
}

// copies are the two ways to continue what was copied.
func copies() map[string]func(from, to *served) error {
	p := &nodesync.Position{}
	return map[string]func(from, to *served) error{
		"exact": func(from, to *served) error {
			_, err := nodesync.Copy(from.t.Context(), from, to, nodesync.Options{})
			return err
		},
		"restamp": func(from, to *served) error {
			keep := func(*nodesync.Position) error { return nil }
			_, err := nodesync.Restamp(from.t.Context(), from, to, p, keep, nodesync.Options{})
			return err
		},
	}
}

// A source that was started again, or killed, is copied on; one that was put back from an older
// copy is not, and the copy stays as it is.
func TestCopyOfAnotherHistory(t *testing.T) {
	rounds.NotUnderRace(t, "TestCopyIntoACluster copies, too")
	rng := seeded(t)
	for name, copied := range copies() {
		t.Run(name, func(t *testing.T) { copyOfAnotherHistory(t, rng, copied) })
	}
}

func copyOfAnotherHistory(t *testing.T, rng *rand.Rand, copied func(from, to *served) error) {
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	goesOn := func(what string) {
		t.Helper()
		from.fill(rng, 10)
		if err := copied(from, to); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	goesOn("a new node")
	from.restart()
	goesOn("started again")
	from.putBack(from.image())
	goesOn("killed after a copy")
	to.restart()
	old := from.image()
	goesOn("before it is put back")
	newest := from.image()
	kept := to.rows(&record.Query{})

	from.putBack(old)
	refused := func(what string) {
		t.Helper()
		err := copied(from, to)
		var lack *record.LackError
		if !errors.Is(err, nodesync.ErrNotACopy) || !errors.As(err, &lack) {
			t.Fatalf("%s: %v", what, err)
		}
		if !slices.Equal(to.rows(&record.Query{}), kept) {
			t.Fatalf("%s: the copy has changed", what)
		}
	}
	refused("put back")
	from.fill(rng, 10)
	refused("put back and written to")
	from.restart()
	refused("put back and started again")

	from.putBack(newest)
	goesOn("put back to where the copy ends")
}

// A target that was put back from an older copy lacks what was put into it: nothing more is put,
// until a new position puts everything again.
func TestRestampIntoAnotherHistory(t *testing.T) {
	rng := seeded(t)
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	keep := func(*nodesync.Position) error { return nil }
	put := func(p *nodesync.Position) error {
		_, err := nodesync.Restamp(t.Context(), from, to, p, keep, nodesync.Options{})
		return err
	}
	p := &nodesync.Position{}
	from.fill(rng, 10)
	if err := put(p); err != nil {
		t.Fatal(err)
	}
	to.restart()
	old := to.image()
	from.fill(rng, 10)
	if err := put(p); err != nil {
		t.Fatalf("started again: %v", err)
	}
	to.putBack(old)
	from.fill(rng, 10)
	kept := to.rows(&record.Query{})
	err := put(p)
	var lack *record.LackError
	if !errors.Is(err, nodesync.ErrNotACopy) || !errors.As(err, &lack) {
		t.Fatalf("put back: %v", err)
	}
	if !slices.Equal(to.rows(&record.Query{}), kept) {
		t.Fatal("put back: the target has changed")
	}
	if err := put(&nodesync.Position{}); err != nil {
		t.Fatalf("a new position: %v", err)
	}
	got, want := len(to.rows(&record.Query{})), len(kept)+len(from.rows(&record.Query{}))
	if got != want {
		t.Errorf("%d records, want %d", got, want)
	}
}

// An exact copy that is put back to what it had after any range of a run goes on from there.
func TestCopyKilledAtEachRange(t *testing.T) {
	rounds.NotUnderRace(t, "TestCopyIntoACluster copies, too")
	rng := seeded(t)
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	for range 4 {
		from.fill(rng, 60)
		box := &wire.Box{Box: record.Box{record.MID: {record.At(rng.Int64N(40))}}}
		if _, err := from.Erase(t.Context(), box); err != nil {
			t.Fatal(err)
		}
	}
	var images []string
	_, err := nodesync.Copy(t.Context(), from, to, nodesync.Options{SliceRows: 70,
		Progress: func(*nodesync.Report) { images = append(images, to.image()) }})
	if err != nil || len(images) < 3 {
		t.Fatalf("%d ranges, %v", len(images), err)
	}
	for i, image := range images {
		to.putBack(image)
		report, err := nodesync.Copy(t.Context(), from, to, nodesync.Options{})
		if err != nil {
			t.Fatalf("put back to range %d: %v", i, err)
		}
		sameViews(t, rng, from, to, report.ToNs)
	}
}
