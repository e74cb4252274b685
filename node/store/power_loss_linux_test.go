package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"golang.org/x/sys/unix"
)

// memoryDir is a directory that is in memory where there is such a thing: stores are opened there
// by the thousand.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pentad-power-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// crashed is what a loss of power left at some moment.
type crashed struct {
	image
	what string
	said string // by then
}

// TestPowerLoss loses power before every operation on files of the life of a store: puts, seals,
// merges, erases, purges, a retention, backups, a snapshot, a restore, closing and opening. What
// was not synced is gone, or in a second image of each moment some of it. Nothing of what is left
// looks damaged, all opens, everything that was acknowledged is there, and nothing else but what
// was being done, whole.
func TestPowerLoss(t *testing.T) {
	rounds.NotUnderRace(t, "it opens stores that lost power")
	rng := randomSource(t)
	deadline := time.Now().Add(powerTime(t))
	for round := 0; round == 0 || time.Now().Before(deadline); round++ {
		losePower(t, rng)
	}
}

// powerTime is how long tests of lost power go on after the first round.
func powerTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("PENTAD_POWER_FOR")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func losePower(t *testing.T, rng *rand.Rand) {
	t.Helper()
	dir := memoryDir(t)
	tree := newDurableTree(dir)
	defer tree.close()
	if err := tree.sync(dir); err != nil {
		t.Fatal(err)
	}
	seed, seen := maphash.MakeSeed(), map[uint64]bool{}
	every := rounds.Of(1, 2, 4) // moment of which some of what was not synced is left, too
	if powerTime(t) > 0 {
		every = 1
	}
	var images []crashed
	said, ops, err := watch(dir, func(n int, op operation, said []byte) error {
		for _, source := range []*rand.Rand{nil, rng} {
			if source != nil && rng.IntN(every) > 0 {
				continue
			}
			left, err := tree.crash(source)
			if err != nil {
				t.Errorf("before operation %d: %v", n, err)
				return nil
			}
			if sum := left.sum(seed); !seen[sum] {
				seen[sum] = true
				images = append(images, crashed{left, fmt.Sprintf("before operation %d, of %s, "+
					"some of it written: %v", n, op.path, source != nil), string(said)})
			}
		}
		if op.sync {
			if err := tree.sync(op.path); err != nil {
				t.Errorf("operation %d: %v", n, err)
			}
		}
		return nil
	})
	steps := powerSteps()
	skipUnwatched(t, err)
	if err != nil || strings.Count(said, "done ") != len(steps) {
		t.Fatalf("%d steps: %s, %v", len(steps), said, err)
	}
	if ops < 300 || len(images) < rounds.Of(300, 150, 100) {
		t.Fatalf("%d images before %d operations", len(images), ops)
	}
	t.Logf("%d operations, %d images", ops, len(images))
	checkImages(t, steps, images)
}

// skipUnwatched ends a test on a machine where no process may watch another.
func skipUnwatched(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), cannotWatch) {
		required.Skip(t, required.Watch, err.Error())
	}
}

// checkImages checks images on as many goroutines as pay.
func checkImages(t *testing.T, steps []powerStep, images []crashed) {
	t.Helper()
	dir := memoryDir(t)
	work := make(chan crashed)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for c := range work {
				at := filepath.Join(dir, fmt.Sprint(worker))
				err := c.lay(at)
				if err == nil {
					err = checkLeft(t.Context(), at, steps, outcomes(steps, c.said))
				}
				if err = errors.Join(err, os.RemoveAll(at)); err != nil {
					t.Errorf("%s: %v", c.what, err)
				}
			}
		})
	}
	for _, c := range images {
		if t.Failed() {
			break
		}
		work <- c
	}
	close(work)
	wg.Wait()
}

// outcome is what was said of a step.
type outcome string

const (
	outcomeDone    outcome = "done"
	outcomeFailed  outcome = "failed"  // and nothing has changed
	outcomeUnknown outcome = "unknown" // failed, or was being done
	outcomeNone    outcome = ""        // it was not begun
)

func outcomes(steps []powerStep, said string) []outcome {
	out := make([]outcome, len(steps))
	begun := strings.Count(said, "\n")
	for line := range strings.Lines(said) {
		var o outcome
		var i int
		if n, _ := fmt.Sscanf(line, "%s %d\n", &o, &i); n == 2 {
			out[i] = o
		}
	}
	if begun < len(steps) {
		out[begun] = outcomeUnknown
	}
	return out
}

// checkLeft checks what is left of a directory after steps with some outcomes.
func checkLeft(ctx context.Context, dir string, steps []powerStep, out []outcome) error {
	last := func(what string) int {
		for i := len(steps) - 1; i >= 0; i-- {
			if steps[i].what == what && out[i] == outcomeDone {
				return i
			}
		}
		return -1
	}
	storeDir := filepath.Join(dir, "store")
	_, err := os.Stat(filepath.Join(storeDir, layout.ManifestFile))
	if err == nil || last("open") >= 0 {
		if err := noDamage(check.Directory(ctx, storeDir, check.Options{})); err != nil {
			return fmt.Errorf("check: %w", err)
		}
		if err := checkRows(ctx, storeDir, steps, out); err != nil {
			return err
		}
	}
	if at := last("commit"); at >= 0 {
		if err := checkCursor(filepath.Join(dir, "cursors"), at); err != nil {
			return err
		}
	}
	if last("backup") >= 0 {
		err := noDamage(archive.Check(ctx, filepath.Join(dir, "backup")))
		if err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	if last("snapshot") >= 0 {
		err := noDamage(check.Directory(ctx, filepath.Join(dir, "snapshot"), check.Options{}))
		if err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	if i := last("restore"); i >= 0 {
		return checkRestored(ctx, filepath.Join(dir, "restored"), steps[:i], out)
	}
	return nil
}

// checkRestored checks what was restored from the newest backup that was done, or from a newer one
// that failed when all of it was there.
func checkRestored(ctx context.Context, dir string, steps []powerStep, out []outcome) error {
	var err error
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].what != "backup" || out[i] == outcomeNone {
			continue
		}
		before := slices.Clone(out[:len(steps)])
		clear(before[i:])
		if err = checkRows(ctx, dir, steps, before); err == nil || out[i] == outcomeDone {
			return err
		}
	}
	return err
}

// checkCursor wants the cursor where the last commit that was done moved it, or further.
func checkCursor(dir string, at int) error {
	damage, _, err := cursors.CheckFile(dir)
	if err == nil && len(damage) > 0 {
		err = damage[0]
	}
	if err != nil {
		return fmt.Errorf("cursors: %w", err)
	}
	f, err := cursors.Open(dir)
	if err != nil {
		return fmt.Errorf("cursors: %w", err)
	}
	c, err := f.Get("reader")
	if err = errors.Join(err, f.Close()); err == nil && c.AcqNs < int64(at) {
		err = fmt.Errorf("the cursor is at %d, and %d was committed", c.AcqNs, at)
	}
	return err
}

func noDamage(r api.CheckReport, err error) error {
	if err == nil && r.Damages > 0 {
		err = fmt.Errorf("%+v", r.Damage)
	}
	return err
}

// checkRows opens a store and compares what it has with what was put: what is done is there, what
// failed is not, and what is not known is there whole or not at all.
func checkRows(ctx context.Context, dir string, steps []powerStep, out []outcome) error {
	s, _, err := Open(ctx, powerOptions(dir))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	there, err := batchesOf(ctx, s)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	must := batches(steps, func(i int) bool { return out[i] == outcomeDone })
	var open []int
	for i := range out {
		if out[i] == outcomeUnknown && steps[i].batch != 0 {
			open = append(open, i)
		}
	}
	for choice := range 1 << min(len(open), 12) {
		may := batches(steps, func(i int) bool {
			at := slices.Index(open, i)
			return out[i] == outcomeDone || at >= 0 && at < 12 && choice>>at&1 == 1
		})
		if slices.Equal(there, may) {
			return nil
		}
	}
	return fmt.Errorf("batches %v are there, and %v must be; of the steps %v nothing is known",
		there, must, open)
}

// batchesOf returns which batches a store has, all of them whole.
func batchesOf(ctx context.Context, s *Store) ([]int64, error) {
	var mu sync.Mutex
	rows := map[int64]int{}
	_, err := s.Scan(ctx, &record.Query{View: record.ViewLatest}, func(int) (Sink, error) {
		return func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				number := b.CapNs[i]
				want := fmt.Append(nil, number, b.MID[i]>>8)
				if !bytes.Equal(b.Payload(i), want) {
					return fmt.Errorf("batch %d has %q", number, b.Payload(i))
				}
				rows[number]++
			}
			return nil
		}, nil
	})
	for number, n := range rows {
		if n != powerRows && err == nil {
			err = fmt.Errorf("%d rows of batch %d are there, of %d", n, number, powerRows)
		}
	}
	return slices.Sorted(maps.Keys(rows)), err
}

// TestEveryOperationFails lets an operation on files fail in the life of a store, for lack of space
// or as a failing disk would: each step says what became of it, and is right. Then power is lost.
func TestEveryOperationFails(t *testing.T) {
	rounds.NotUnderRace(t, "it opens stores that lost power")
	rng := randomSource(t)
	ops := failAt(t, rng, 0, 0)
	long := powerTime(t)
	deadline := time.Now().Add(long)
	least := rounds.Of(15, 5, 3)
	for round := 0; round < least || time.Now().Before(deadline) && round < ops; round++ {
		at := round + 1
		if long == 0 {
			at = 1 + rng.IntN(ops)
		}
		for _, errno := range []unix.Errno{unix.EIO, unix.ENOSPC} {
			failAt(t, rng, at, errno)
		}
	}
}

// failAt lets one operation fail, 0 for none, and returns how many there were.
func failAt(t *testing.T, rng *rand.Rand, at int, errno unix.Errno) int {
	t.Helper()
	dir := memoryDir(t)
	tree := newDurableTree(dir)
	defer tree.close()
	if err := tree.sync(dir); err != nil {
		t.Fatal(err)
	}
	failed := ""
	said, ops, err := watch(dir, func(n int, op operation, _ []byte) error {
		if n == at {
			failed = op.path
			return errno
		}
		if op.sync {
			return tree.sync(op.path)
		}
		return nil
	})
	skipUnwatched(t, err)
	what := fmt.Sprintf("operation %d, of %s: %v", at, failed, errno)
	steps := powerSteps()
	if n := strings.Count(said, "\n"); n != len(steps) && !strings.Contains(fmt.Sprint(err),
		"open before step") {
		t.Fatalf("%s: %d steps of %d were done, %v", what, n, len(steps), err)
	}
	var images []crashed
	for _, source := range []*rand.Rand{nil, rng} {
		left, err := tree.crash(source)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, crashed{left, what, said})
	}
	checkImages(t, steps, images)
	return ops
}
