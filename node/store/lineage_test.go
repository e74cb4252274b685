package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/repair"
	"github.com/pentad-db/pentad/sdk/record"
)

// branch is a directory of a store that is copied, put back and backed up.
type branch struct {
	t    *testing.T
	opt  Options
	s    *Store // nil while the directory is closed
	mid  int64
	to   string // of the backup
	runs int    // of it
	gap  int64  // acq of the first row that is lost
}

// clocks are what branches are stamped by: one that leaps over all leases, and one that was set
// back, so that acqs follow each other without gaps.
func clocks() map[string]func() int64 {
	start := time.Now().UnixNano()
	calls := atomic.Int64{}
	return map[string]func() int64{"": leapingClock(), ", the clock set back": func() int64 {
		if calls.Add(1) > 20 {
			return start - int64(time.Minute)
		}
		return start
	}}
}

func newBranch(t *testing.T, now func() int64) *branch {
	h := &branch{t: t, opt: Options{Dir: t.TempDir(), Now: now}, to: t.TempDir()}
	h.open()
	for range 20 {
		h.put()
	}
	return h
}

func (h *branch) open() *branch {
	h.t.Helper()
	h.s = openTest(h.t, h.opt)
	return h
}

func (h *branch) close() *branch {
	h.t.Helper()
	if err := h.s.Close(); err != nil {
		h.t.Fatal(err)
	}
	return h
}

func (h *branch) put() int64 {
	h.t.Helper()
	h.mid++
	return mustPut(h.t, h.s, batchOf(record.Key{MID: h.mid}), WriterSeq{}).FirstAcqNs
}

func (h *branch) horizon() *branch {
	h.t.Helper()
	if _, err := h.s.ExtendHorizon(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// image copies the directory as it is at one moment, also while it is open.
func (h *branch) image() (dir string) {
	h.t.Helper()
	dir = h.t.TempDir()
	if h.s.closed.Load() {
		copyDir(h.t, h.opt.Dir, dir)
		return dir
	}
	err := h.s.onCommitter(h.t.Context(), func() {
		h.s.manifestMu.Lock()
		defer h.s.manifestMu.Unlock()
		copyDir(h.t, h.opt.Dir, dir)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return dir
}

// putBack opens a copy in place of the directory.
func (h *branch) putBack(dir string) *branch {
	h.t.Helper()
	if !h.s.closed.Load() {
		h.close()
	}
	h.opt.Dir = dir
	return h.open()
}

// backup backs up the store and a snapshot of it by turns.
func (h *branch) backup() error {
	h.t.Helper()
	if h.runs++; h.runs%2 == 1 || h.s.opt.keepSnapshot {
		_, err := archive.Backup(h.t.Context(), h.s, h.to, 0)
		return err
	}
	dir := h.snapshot()
	info, err := layout.ReadSnapshot(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	s, _, err := OpenSnapshot(h.t.Context(), dir)
	if err != nil {
		h.t.Fatal(err)
	}
	_, err = archive.Backup(h.t.Context(), s, h.to, info.AcqNs)
	return errors.Join(err, s.Close())
}

func (h *branch) mustBackup() *branch {
	h.t.Helper()
	if err := h.backup(); err != nil {
		h.t.Fatal(err)
	}
	return h
}

func (h *branch) restore(untilNs int64) string {
	h.t.Helper()
	dir := filepath.Join(h.t.TempDir(), "restored")
	if _, err := archive.Restore(h.t.Context(), h.to, dir, untilNs); err != nil {
		h.t.Fatal(err)
	}
	return dir
}

func (h *branch) snapshot() string {
	h.t.Helper()
	dir := filepath.Join(h.t.TempDir(), "snapshot")
	if _, err := h.s.Snapshot(h.t.Context(), dir); err != nil {
		h.t.Fatal(err)
	}
	return dir
}

// A backup is continued by a directory that has everything that it holds, however often that was
// opened, killed, restored or copied.
func TestBackupGoesOn(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine puts, copies and backs up")
	for name, change := range map[string]func(h *branch){
		"opened again": func(h *branch) { h.close().open() },
		"opened often": func(h *branch) {
			h.close().open().horizon().close().open().close().open()
		},
		"killed":              func(h *branch) { h.putBack(h.image()) },
		"killed after a put":  func(h *branch) { h.put(); h.putBack(h.image()) },
		"killed at rest":      func(h *branch) { h.horizon().mustBackup().putBack(h.image()) },
		"killed after a part": func(h *branch) { h.close().open().mustBackup().putBack(h.image()) },
		"killed twice":        func(h *branch) { h.putBack(h.image()).putBack(h.image()) },
		"restored":            func(h *branch) { h.putBack(h.restore(0)) },
		"restored twice": func(h *branch) {
			h.putBack(h.restore(0))
			h.put()
			h.mustBackup().putBack(h.restore(0))
		},
		"a snapshot":        func(h *branch) { h.putBack(h.snapshot()) },
		"a copy":            func(h *branch) { h.put(); h.close().putBack(h.image()) },
		"a manifest again":  func(h *branch) { mustRewrite(h.t, h.s); h.close().open() },
		"without a lineage": func(h *branch) { h.forget() },
		"sealed": func(h *branch) {
			h.put()
			if err := h.s.Seal(h.t.Context()); err != nil {
				h.t.Fatal(err)
			}
			h.putBack(h.image())
		},
	} {
		eachClock(t, name, func(t *testing.T, h *branch) {
			h.close().open()
			h.put()
			h.mustBackup()
			change(h)
			h.put()
			h.mustBackup()
			h.put()
			h.close().open().mustBackup()
			if len(h.s.manifest.Lineage) == 0 || h.s.manifest.Lineage.Check() != nil {
				t.Errorf("its lineage is %v", h.s.manifest.Lineage)
			}
			again := openTest(t, Options{Dir: h.restore(0), Now: leapingClock()})
			compare(t, "restored", scanRows(t, again, &record.Query{}),
				scanRows(t, h.s, &record.Query{}))
		})
	}
}

func eachClock(t *testing.T, name string, run func(t *testing.T, h *branch)) {
	for clock, now := range clocks() {
		t.Run(name+clock, func(t *testing.T) { run(t, newBranch(t, now)) })
	}
}

func mustRewrite(t *testing.T, s *Store) {
	t.Helper()
	if err := s.rewriteManifest(); err != nil {
		t.Fatal(err)
	}
}

// forget makes the directory and its backup ones that were made before there were lineages.
func (h *branch) forget() {
	h.t.Helper()
	h.s.manifestMu.Lock()
	h.s.manifest.Lineage = nil
	h.s.manifestMu.Unlock()
	mustRewrite(h.t, h.s)
	h.to = h.t.TempDir()
	h.mustBackup()
	parts, err := archive.Parts(h.to)
	if err != nil || parts[0].Lineage.At(parts[0].UntilAcqNs) != 0 {
		h.t.Fatalf("%+v, %v", parts, err)
	}
	h.close().open()
}

// older is an image of a directory; what came to that after it is in the backup.
func older(h *branch) string {
	dir := h.image()
	h.gap = h.put()
	h.mustBackup()
	return dir
}

// putBackAgain are ways to put back a directory that lacks what the backup holds.
func putBackAgain() map[string]func(h *branch) {
	return map[string]func(h *branch){
		"an image":             func(h *branch) { h.putBack(older(h)) },
		"an image of one open": func(h *branch) { h.close().open(); h.put(); h.putBack(older(h)) },
		"an image of one idle": func(h *branch) { h.close().open(); h.putBack(older(h)) },
		"an image of one known": func(h *branch) {
			h.close().open().horizon()
			h.putBack(older(h))
		},
		"a cold copy": func(h *branch) {
			h.close()
			dir := h.image()
			h.open()
			h.gap = h.put()
			h.mustBackup().putBack(dir)
		},
		"opened often since": func(h *branch) {
			h.putBack(older(h)).horizon().close().open().horizon().close().open()
		},
		"killed when opened": func(h *branch) { h.putBack(older(h)).putBack(h.image()) },
		"killed at rest": func(h *branch) {
			h.putBack(older(h)).horizon().putBack(h.image())
		},
		"a clone that went on": func(h *branch) {
			clone := h.image()
			h.close().open()
			h.gap = h.put()
			h.mustBackup().putBack(clone)
		},
	}
}

// restoredAgain are ways to come by one with a restore, a snapshot, or what is done since.
func restoredAgain() map[string]func(h *branch) {
	return map[string]func(h *branch){
		"restored in part": func(h *branch) {
			h.gap = h.put()
			h.mustBackup().putBack(h.restore(h.gap))
		},
		"restored in part, with a purge since": func(h *branch) {
			h.gap = h.put()
			box := record.Box{record.CID: {record.At(9)}}
			if _, err := h.s.Purge(h.t.Context(), box); err != nil {
				h.t.Fatal(err)
			}
			h.mustBackup().putBack(h.restore(h.gap))
		},
		"restored, and another one went on": func(h *branch) {
			dir := h.restore(0)
			h.gap = h.put()
			h.mustBackup().putBack(dir)
		},
		"another one was restored and went on": func(h *branch) {
			was := h.opt.Dir
			h.putBack(h.restore(0))
			h.gap = h.put()
			h.mustBackup().putBack(was)
		},
		"a snapshot": func(h *branch) {
			dir := h.snapshot()
			h.gap = h.put()
			h.mustBackup().putBack(dir)
		},
		"read since": func(h *branch) {
			dir := older(h)
			h.close()
			s, _, err := OpenSnapshot(h.t.Context(), dir)
			if err != nil {
				h.t.Fatal(err)
			}
			h.s = s
			h.refused()
			h.putBack(dir)
		},
		"the manifest rewritten": func(h *branch) { h.putBack(older(h)); mustRewrite(h.t, h.s) },
		"sealed and killed": func(h *branch) {
			h.putBack(older(h))
			if err := h.s.Seal(h.t.Context()); err != nil {
				h.t.Fatal(err)
			}
			h.putBack(h.image())
		},
	}
}

// A directory that lacks what a backup holds does not continue it, and the backup stays as it is.
func TestBackupOfAnotherHistory(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine puts, copies and backs up")
	changes := putBackAgain()
	maps.Copy(changes, restoredAgain())
	for name, change := range changes {
		eachClock(t, name, func(t *testing.T, h *branch) {
			h.close().open()
			h.put()
			h.mustBackup()
			change(h)
			h.refused()
			h.put()
			h.refused()
			h.close().open().refused()
			h.to = t.TempDir()
			h.put()
			h.mustBackup()
		})
	}
}

// refused checks that the backup is not continued, and that the error says what is missing.
func (h *branch) refused() {
	h.t.Helper()
	before, err := archive.Parts(h.to)
	if err != nil {
		h.t.Fatal(err)
	}
	var lack *record.LackError
	if err = h.backup(); !errors.Is(err, archive.ErrGap) || !errors.As(err, &lack) {
		h.t.Fatalf("the backup goes on: %v; lineage %v", err, h.s.manifest.Lineage)
	}
	end := before[len(before)-1].UntilAcqNs
	if !lack.Known || lack.FromNs > h.gap || lack.UntilNs != end || lack.UntilNs <= h.gap ||
		!strings.Contains(err.Error(), "older copy") {
		h.t.Errorf("what came from %d to %d is lost: %v", h.gap, end, err)
	}
	after, err := archive.Parts(h.to)
	if err != nil || len(after) != len(before) {
		h.t.Errorf("%d parts became %d, %v", len(before), len(after), err)
	}
}

// A repair of the log loses records, which a backup may hold.
func TestBackupAfterRepair(t *testing.T) {
	h := newBranch(t, leapingClock())
	h.mustBackup()
	logs := filepath.Join(h.opt.Dir, layout.LogDir, "0000000001.log")
	whole, err := os.Stat(logs)
	if err != nil {
		t.Fatal(err)
	}
	h.gap = h.put()
	h.put()
	box := record.Box{record.CID: {record.At(9)}}
	if _, err := h.s.Erase(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	h.mustBackup().close()
	flipByte(t, logs, whole.Size()+100)
	report, err := repair.Log(t.Context(), h.opt.Dir, true)
	if err != nil || report.File == "" {
		t.Fatalf("%+v, %v", report, err)
	}
	h.open().refused()
}

// Stores of many copies are opened, killed, put back and backed up at random: a backup that goes on
// is always what the store holds.
func TestBackupNeverMixes(t *testing.T) {
	rng := randomSource(t)
	for range fewer(10) {
		for _, now := range clocks() {
			backUpAtRandom(t, rng, newBranch(t, now))
		}
	}
}

func backUpAtRandom(t *testing.T, rng *rand.Rand, h *branch) {
	t.Helper()
	images := []string{}
	targets := []string{h.to, t.TempDir(), t.TempDir()}
	went, stayed := 0, 0
	var said []string
	for n := 0; n < 40 || went == 0; n++ { // whether a backup is made, and may go on, is chance
		if n == 2000 {
			t.Fatalf("none of the backups went on, %d did not", stayed)
		}
		act := rng.IntN(12)
		said = append(said, fmt.Sprint(act))
		switch act {
		case 0, 1:
			h.put()
		case 2:
			h.horizon()
		case 3:
			h.close().open()
		case 4:
			images = append(images, h.image())
		case 5:
			h.putBack(h.image())
		case 6:
			if len(images) > 0 {
				h.opt.Dir, h.s = images[rng.IntN(len(images))], mustClose(h.s)
				h.putBack(h.image()) // the image is kept as it is
			}
		case 7:
			h.putBelow(1 + rng.IntN(5))
		case 8:
			box := record.Box{record.MID: {record.At(1 + rng.Int64N(h.mid))}}
			if _, err := h.s.Erase(t.Context(), box); err != nil {
				t.Fatal(err)
			}
		case 9:
			if err := h.s.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		default:
			h.to = targets[rng.IntN(len(targets))]
			err := h.backup()
			if errors.As(err, new(*record.LackError)) {
				stayed++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			went++
			again := openTest(t, Options{Dir: h.restore(0), Now: leapingClock()})
			compare(t, "after "+strings.Join(said, " "), scanRows(t, again, &record.Query{}),
				scanRows(t, h.s, &record.Query{}))
			mustClose(again)
		}
	}
}

// putBelow puts rows right below the horizon.
func (h *branch) putBelow(rows int) {
	h.t.Helper()
	horizon, err := h.s.ExtendHorizon(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	b := &record.Batch{}
	for i := range rows {
		h.mid++
		b.AppendStamped(record.Key{MID: h.mid, AcqNs: horizon - int64(1+i%2)}, nil)
	}
	if _, err := h.s.PutBackdated(h.t.Context(), b); err != nil {
		h.t.Fatal(err)
	}
}

func mustClose(s *Store) *Store {
	_ = s.Close() // it may be closed
	return s
}
