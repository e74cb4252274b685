package archive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/store"
)

// endingContext is a context that has ended once Err was called a number of times: a signal comes
// between any two looks at it.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return c.Context.Err()
}

// A backup and a restore look at the signal within segments, not only between them, and wherever it
// comes nothing is left: the next run is whole.
func TestEndsWithinSegments(t *testing.T) {
	s := openTest(t, store.Options{Shards: 1})
	const rows = 2000 // in blocks of 64
	rng := randomSource(t)
	mustPut(t, s, randomBatch(rng, rows/2), store.WriterSeq{})
	second := mustPut(t, s, randomBatch(rng, rows/2), store.WriterSeq{})
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	// looks counts how often a run that is not ended looks at its context, and ends it everywhere.
	looks := func(run func(ctx context.Context) error, left func()) int {
		t.Helper()
		for n := 0; ; n++ {
			err := run(&endingContext{t.Context(), n})
			if err == nil {
				return n
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("after %d looks: %v", n, err)
			}
			left()
		}
	}
	n := looks(func(ctx context.Context) error {
		_, err := Backup(ctx, s, to, BackupOptions{})
		return err
	}, func() {
		if found, err := filepath.Glob(filepath.Join(to, "part-*")); err != nil || len(found) > 0 {
			t.Fatalf("%v are left, %v", found, err)
		}
	})
	if n < rows/64 {
		t.Errorf("a backup of %d rows looks %d times", rows, n)
	}
	restoreTest(t, to, s)
	dir := filepath.Join(t.TempDir(), "store")
	n = looks(func(ctx context.Context) error {
		_, err := Restore(ctx, to, dir, RestoreOptions{})
		return err
	}, func() {
		for _, name := range []string{dir, dir + ".tmp"} {
			if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("%s is left: %v", name, err)
			}
		}
	})
	if n < rows/64 {
		t.Errorf("a restore of %d rows looks %d times", rows, n)
	}
	// Rows of a part of a segment are written again, tile by tile.
	before := n
	var report RestoreReport
	n = looks(func(ctx context.Context) (err error) {
		report, err = Restore(ctx, to, dir+"2", RestoreOptions{UntilAcqNs: second.FirstAcqNs})
		return err
	}, func() {})
	if n >= before || report.Rows != rows/2 {
		t.Errorf("%d looks of %d, %d rows", n, before, report.Rows)
	}
}
