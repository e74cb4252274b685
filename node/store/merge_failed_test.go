package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

func segmentFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+layout.SegmentSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// After an edit that may be on disk or not the manifest takes no more: merges and seals that are
// tried again write nothing, and what had been written meanwhile goes.
func TestNothingIsWrittenForAFailedManifest(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Shards: 1, Now: leapingClock()}
	s := openTest(t, opt)
	for mid := range int64(mergepolicy.FanIn - 1) {
		put1(t, s, mid, 1, "x")
		mustSeal(t, s)
	}
	mustSettle(t, s) // the merger rests: there are too few
	sh := s.shards[0]
	run := sh.State.Load().Sealed
	merged, e, err := s.writeMerged(sh, run, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.manifest.Close(); err != nil { // every edit fails from now on
		t.Fatal(err)
	}
	if _, err := s.Erase(t.Context(), record.Box{}); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, manifest.ErrUnwritten) {
			t.Errorf("%s: %v", what, err)
		}
		if names := segmentFiles(t, opt.Dir); len(names) != len(run) {
			t.Errorf("%s: %d segments for %d live ones: %q", what, len(names), len(run), names)
		}
	}
	check("a merge that had begun", s.replaceByMerged(sh, run, merged, e))
	next := s.nextID.Load()
	check("a merge", s.merge(sh, run, true))
	put := batchOf(record.Key{MID: 9})
	sh.State.Load().Head.Shards[0].Insert(put)
	sh.LastLSN++
	if !sh.Rotate() {
		t.Fatal("nothing to seal")
	}
	_, err = s.sealOldest([]*shards.Shard{sh})
	check("a seal", err)
	if s.nextID.Load() != next {
		t.Error("a segment was written that no manifest can name")
	}
	_ = s.Close() // says that the manifest is closed
}

// A segment that was written and cannot be read leaves no file behind.
func TestUnreadableNewSegmentGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), layout.SegmentName(1))
	if err := os.WriteFile(path, []byte("no segment"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := new(Store).openNew(path, manifest.Segment{ID: 1})
	if damage := (*durable.CorruptError)(nil); !errors.As(err, &damage) {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Who waits is answered after a look at what is due that began later: segments which appear while
// the merger ends its last look are merged first.
func TestWaitForMergesWaitsForALaterLook(t *testing.T) {
	s := openTest(t, Options{Shards: 1, Now: leapingClock()})
	sh := s.shards[0]
	for mid := range int64(mergepolicy.FanIn - 1) {
		put1(t, s, mid, 1, "x")
		mustSeal(t, s)
	}
	mustSettle(t, s)
	put1(t, s, 9, 1, "x")
	s.manifestMu.Lock() // the merger's look ends here
	s.wakeMerger()
	for !isRunning("finishPurges") {
		runtime.Gosched()
	}
	immutable := rotateTest(t, sh)
	seg, e, err := s.writeSegment(sh, immutable)
	if err == nil {
		err = s.manifest.Append(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	sh.Replace(immutable, seg)
	settled := make(chan error, 1)
	s.addWaiters(mergeWaiters{{done: settled}})
	s.wakeMerger()
	s.manifestMu.Unlock()
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Segments != 1 || st.Merges != 1 {
		t.Errorf("%d segments after %d merges", st.Segments, st.Merges)
	}
}

func rotateTest(t *testing.T, sh *shards.Shard) *shards.ImmutableHead {
	t.Helper()
	if !sh.Rotate() {
		t.Fatal("nothing to seal")
	}
	return sh.State.Load().Immutable[0]
}

// isRunning reports whether a goroutine is in a method of the store.
func isRunning(method string) bool {
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]),
		"store.(*Store)."+method+"(")
}

// A merge that went well does not make the one forgotten that failed before it.
func TestWaitForMergesKeepsAnEarlierFailure(t *testing.T) {
	s := openTest(t, Options{Shards: 2, Now: leapingClock(),
		Scrub: background.NewScrub(0, 1)}) // so that a merge meets the damage first
	put := func(shard, rows int) {
		t.Helper()
		b := &record.Batch{}
		for mid := int64(0); b.Len() < rows; mid++ {
			if layout.ShardOf(0, mid, 2) == shard {
				b.Append(record.Key{MID: mid, CapNs: 1}, []byte("12345678"))
			}
		}
		mustPut(t, s, b, WriterSeq{})
		mustSeal(t, s)
	}
	for range mergepolicy.FanIn - 1 {
		put(0, 1000) // the smaller run is merged first
		put(1, 4000)
	}
	path := s.shards[0].State.Load().Sealed[1].File.Path()
	flipByte(t, path, 300)
	put(1, 4000)
	mustSettle(t, s)
	put(0, 1000)
	var damage *durable.CorruptError
	if err := s.WaitForMerges(t.Context()); !errors.As(err, &damage) || damage.File != path {
		t.Fatalf("merged over damage in %s: %v", path, err)
	}
	before := s.Stats().Merges
	for range mergepolicy.FanIn {
		put(1, 4000)
	}
	if err := s.WaitForMerges(t.Context()); !errors.As(err, &damage) || damage.File != path {
		t.Errorf("the damage in %s is forgotten: %v", path, err)
	}
	if st := s.Stats(); st.Merges <= before || st.MergeErr == nil {
		t.Errorf("%d merges, before %d, %v", st.Merges, before, st.MergeErr)
	}
}

// A purge that met damage is not tried again at each look while the damage is known, and is when it
// is gone.
func TestPurgeOfDamageIsLeftAlone(t *testing.T) {
	s := openTest(t, Options{Shards: 1, Now: leapingClock(), mergeRetry: 1,
		Scrub: background.NewScrub(0, 1)}) // so that the purge meets the damage first
	b := &record.Batch{}
	for mid := range int64(1000) {
		b.Append(record.Key{MID: mid, CapNs: 1}, []byte("12345678"))
	}
	mustPut(t, s, b, WriterSeq{})
	mustSeal(t, s)
	path := s.shards[0].State.Load().Sealed[0].File.Path()
	flipByte(t, path, 300)
	mustPurge(t, s, boxOf(record.MID, 0, 10))
	var damage *durable.CorruptError
	if err := s.WaitForMerges(t.Context()); !errors.As(err, &damage) || damage.File != path {
		t.Fatalf("purged over damage in %s: %v", path, err)
	}
	flipByte(t, path, 300) // only reading it again would tell
	for look := range 3 {
		if err := s.WaitForMerges(t.Context()); !errors.As(err, &damage) {
			t.Fatalf("look %d: tried again: %v", look, err)
		}
	}
	for _, p := range s.Problems() {
		if p.Code == "merge_failed" && p.Advice != adviceDamagedRetry {
			t.Errorf("%+v", p)
		}
	}
	s.damaged.SegmentRight(path)
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.PurgedRows != 10 || st.MergeErr != nil {
		t.Errorf("%d rows purged, %v", st.PurgedRows, st.MergeErr)
	}
}
