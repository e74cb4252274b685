package store

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// A store is verified while it is written, sealed and merged: nothing is found, and nothing waits.
func TestVerifyDuringEverything(t *testing.T) {
	rng := randomSource(t)
	s := openTest(t, Options{Shards: 2, SealRows: 300, LogFiles: 1, Now: leapingClock(),
		Index: index.Options{BlockRows: 64}})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		sh := shape{cids: 2, mids: 50, moids: 2, caps: 1000, varied: true}
		for {
			select {
			case <-stop:
				return
			default:
				b := sh.batch(rng, 1+rng.IntN(200), time.Now().UnixNano())
				if _, err := s.Put(t.Context(), b, WriterSeq{}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for s.Stats().Merges < int64(rounds.Of(3, 3, 1)) {
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		report, err := s.Verify(t.Context(), check.Options{})
		if err != nil || report.Damages > 0 {
			t.Fatalf("%+v, %v", report, err)
		}
	}
	close(stop)
	wg.Wait()
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	progress := 0
	report, err := s.Verify(t.Context(), check.Options{BytesPerSec: 1 << 40,
		Progress: func(*api.CheckReport) { progress++ }})
	st := s.Stats()
	if err != nil || report.Rows != st.Rows || report.Segments != st.Segments || progress == 0 ||
		report.Bytes < st.SegmentBytes {
		t.Errorf("%+v, %v; %+v", report, err, st)
	}
}

// Files of the log are removed while it is verified, and the newest one is not: that is no gap.
func TestVerifyWhileLogFilesAreRemoved(t *testing.T) {
	s := openTest(t, Options{})
	for i := range 3 {
		s.log.Roll()
		mustPut(t, s, batchOf(record.Key{MID: int64(i)}), WriterSeq{})
	}
	newest := slices.Max(slices.Collect(maps.Keys(s.log.Files())))
	report, err := s.Verify(t.Context(), check.Options{Progress: func(done *api.CheckReport) {
		if done.LogFiles == 1 {
			if err := s.log.Remove(newest); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil || report.Damages > 0 || newest < 3 || report.LogFiles != 2 {
		t.Errorf("%+v, %v; files of the log up to %d, of which 2 were to be read", report, err,
			newest)
	}
}

// Files of a running store are corrupted: each place is named, and the rest is read.
func TestVerifyFindsDamage(t *testing.T) {
	s := openTest(t, Options{Dir: filledDir(t), Now: leapingClock()})
	files := filesOf(t, s.opt.Dir)
	for _, path := range files {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		_, err = f.ReadAt(b[:], 50)
		b[0] ^= 8
		if err == nil {
			_, err = f.WriteAt(b[:], 50)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]int{}
	report, err := s.Verify(t.Context(), check.Options{Damage: func(d api.Damage) {
		found[d.File]++
	}})
	if err != nil || report.Damages != len(files) || report.LogFiles != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, path := range files {
		if found[path] != 1 {
			t.Errorf("%s is named %d times", filepath.Base(path), found[path])
		}
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	segments := 0 // the others were written again
	for _, path := range files {
		if filepath.Ext(path) == layout.SegmentSuffix {
			segments++
		}
	}
	if report, err := s.Verify(t.Context(), check.Options{}); err != nil ||
		report.Damages != segments {
		t.Errorf("a missing segment: %+v, %v", report, err)
	}
}

// A verification that is to take an hour ends with its context.
func TestVerifyEnds(t *testing.T) {
	s := openTest(t, Options{Dir: filledDir(t), Now: leapingClock()})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Verify(ctx, check.Options{BytesPerSec: 10,
		Progress: func(*api.CheckReport) { cancel() }})
	if !errors.Is(err, ctx.Err()) || err == nil {
		t.Error(err)
	}
}

// A check at a rate reads evenly, one block at once, and speaks every second.
func TestCheckKeepsItsRate(t *testing.T) {
	dir := filledDir(t)
	total := mustCheck(t, dir).Bytes
	rate := max(1, total/20)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		said, read, most := began, int64(0), int64(0)
		opt := check.Options{BytesPerSec: rate, Progress: func(done *api.CheckReport) {
			if time.Since(said) > time.Second {
				t.Errorf("silent for %v", time.Since(said))
			}
			said, most, read = time.Now(), max(most, done.Bytes-read), done.Bytes
		}}
		report, err := check.Directory(t.Context(), dir, opt)
		took := time.Since(began).Seconds()
		want := float64(total) / float64(rate)
		if err != nil || report.Bytes != total || took < want-0.001 || took > want+0.001 {
			t.Errorf("%+v, %v: took %v s, want %v", report, err, took, want)
		}
		if most > total/2 {
			t.Errorf("%d of %d bytes at once", most, total)
		}
	})
}
