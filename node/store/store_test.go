package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/leaks"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestMain(m *testing.M) {
	if call := os.Getenv(victimCall); call != "" {
		fmt.Fprintln(os.Stderr, "victim:", victim(call))
		os.Exit(1)
	}
	if dir := os.Getenv(powerCall); dir != "" {
		if err := powerChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Main(m)
}

func copyDir(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil // a seal renamed or deleted it meanwhile
			}
			return err
		}
		rel, _ := filepath.Rel(from, path)
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fewParallel has more workers than one read what a test stores.
const fewParallel = 500

func openTest(t testing.TB, opt Options) *Store {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	if _, test := t.(*testing.T); test {
		opt.parallelRows = cmp.Or(opt.parallelRows, fewParallel)
		opt.PutWait = cmp.Or(opt.PutWait, 5*time.Minute) // a slow machine is no failure
		opt = divided(t, opt)
	}
	s, _, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

// divided draws the number of head shards of a store that is opened, unless the options have one:
// no answer and no file depends on it, and it may be another one each time. Small write groups fill
// them side by side.
func divided(t testing.TB, opt Options) Options {
	if opt.HeadShards == 0 {
		opt.HeadShards = []int{1, 2, 3, 7}[rand.IntN(4)]
		opt.sideBySideRows = 1 + rand.IntN(100)
		seals := 1 + rand.IntN(3)
		opt.Background = cmp.Or(opt.Background, background.NewLimit(seals, 1))
		t.Logf("%d head shards, side by side from %d rows on, %d seals", opt.HeadShards,
			opt.sideBySideRows, seals)
	}
	return opt
}

func batchOf(keys ...record.Key) *record.Batch {
	b := &record.Batch{}
	for _, k := range keys {
		b.Append(k, []byte{byte(k.CapNs)})
	}
	return b
}

func mustPut(t testing.TB, s *Store, b *record.Batch, w WriterSeq) PutResult {
	t.Helper()
	res, err := s.Put(t.Context(), b, w)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestRetriesGetTheFirstAnswer(t *testing.T) {
	opt := Options{Dir: t.TempDir(), SealRows: 50}
	s := openTest(t, opt)
	id := [16]byte{1}
	want := map[uint64]PutResult{}
	check := func(when string) {
		t.Helper()
		for seq, first := range want {
			got := mustPut(t, s, batchOf(record.Key{MID: int64(seq)}), WriterSeq{ID: id, Seq: seq})
			first.Duplicate = true
			if got != first {
				t.Fatalf("%s: retry of %d: %+v, want %+v", when, seq, got, first)
			}
		}
		if rows := scanRows(t, s, &record.Query{}); len(rows) != len(want) {
			t.Fatalf("%s: %d rows, want %d", when, len(rows), len(want))
		}
	}
	for seq := uint64(1); seq <= 60; seq++ {
		want[seq] = mustPut(t, s, batchOf(record.Key{MID: int64(seq)}), WriterSeq{ID: id, Seq: seq})
	}
	check("at once")
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("sealed")
	if st := s.Stats(); st.LogFiles != 1 || st.LogBytes > 1024 || st.HeadRows != 0 {
		t.Fatalf("everything is sealed, but %d log files of %d bytes, %d rows in heads",
			st.LogFiles, st.LogBytes, st.HeadRows)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, opt)
	check("reopened")
	s = crashAndReopen(t, s, &opt)
	check("after a crash")
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{ID: id, Seq: 200})
	_, err := s.Put(t.Context(), batchOf(record.Key{MID: 2}), WriterSeq{ID: id, Seq: 61})
	if !errors.Is(err, writers.ErrTooOld) {
		t.Fatalf("a sequence far below the newest: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSameSequenceAtOnceIsStoredOnce(t *testing.T) {
	s := openTest(t, Options{})
	var wg sync.WaitGroup
	var fresh atomic.Int64
	for range 16 {
		wg.Go(func() {
			for seq := uint64(1); seq <= 50; seq++ {
				b := batchOf(record.Key{MID: int64(seq)})
				res, err := s.Put(t.Context(), b, WriterSeq{ID: [16]byte{9}, Seq: seq})
				if err != nil {
					t.Error(err)
				}
				if !res.Duplicate {
					fresh.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if rows := scanRows(t, s, &record.Query{}); len(rows) != 50 || fresh.Load() != 50 {
		t.Fatalf("%d rows from %d fresh puts, want 50", len(rows), fresh.Load())
	}
}

func TestHorizonNeverMovesBack(t *testing.T) {
	var wall atomic.Int64
	wall.Store(time.Now().UnixNano())
	opt := Options{Dir: t.TempDir(), Now: wall.Load}
	s := openTest(t, opt)
	last := int64(math.MinInt64)
	check := func(when string) {
		t.Helper()
		h, err := s.ExtendHorizon(t.Context())
		if err != nil || h < last {
			t.Fatalf("%s: horizon %d, %v; it was %d before", when, h, err, last)
		}
		res := mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
		if res.FirstAcqNs < h {
			t.Fatalf("%s: acq %d below horizon %d", when, res.FirstAcqNs, h)
		}
		if last, err = s.ExtendHorizon(t.Context()); err != nil || last <= res.LastAcqNs {
			t.Fatalf("%s: horizon %d, %v does not cover acq %d", when, last, err, res.LastAcqNs)
		}
	}
	for i, step := range []time.Duration{0, time.Second, -time.Hour, time.Minute, 3 * time.Hour,
		-24 * time.Hour, 0, 5 * time.Hour} {
		wall.Add(int64(step))
		check("clock moved by " + step.String())
		wall.Add(int64(900 * time.Millisecond))
		if h, err := s.ExtendHorizon(t.Context()); err != nil || h < last {
			t.Fatalf("idle horizon %d, %v; it was %d", h, err, last)
		} else {
			last = h
		}
		if i%2 == 0 {
			s = crashAndReopen(t, s, &opt)
		} else {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openTest(t, opt)
		}
		check("reopened")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// What a reader saw below a horizon must be what it sees later, while writers and seals go on.
func TestBelowTheHorizonNothingChanges(t *testing.T) {
	s := openTest(t, Options{SealRows: 2000, Shards: 4})
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 50, moids: 2, caps: 100}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	const putsOfRound = 16 // where a sync costs nothing, writers would leave readers far behind
	turns := make(chan struct{}, putsOfRound)
	batches := make([]*record.Batch, 50)
	for i := range batches {
		batches[i] = sh.batch(rng, 200, time.Now().UnixNano())
	}
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-turns:
				}
				if _, err := s.Put(t.Context(), batches[i%len(batches)], WriterSeq{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		for len(turns) < putsOfRound {
			turns <- struct{}{}
		}
		h, err := s.ExtendHorizon(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q := &record.Query{View: record.ViewAsOf, AsOfAcqNs: h}
		compare(t, "as of a horizon", scanRows(t, s, q), scanRows(t, s, q))
		all := &record.Query{}
		all.Box[record.Acq] = record.RangeSet{{From: h - int64(time.Millisecond), To: h}}
		compare(t, "below a horizon", scanRows(t, s, all), scanRows(t, s, all))
	}
	close(stop)
	wg.Wait()
}

func TestOpenRefusesAndMends(t *testing.T) {
	opt := Options{Dir: t.TempDir(), Shards: 2}
	s := openTest(t, opt)
	if _, _, err := Open(t.Context(), opt); !errors.Is(err, layout.ErrLocked) {
		t.Fatalf("second open: %v", err)
	}
	mustPut(t, s, batchOf(record.Key{MID: 7}, record.Key{MID: 700}), WriterSeq{})
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	leftover := filepath.Join(opt.Dir, "00000099.seg")
	if err := os.WriteFile(leftover, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	s2, report, err := Open(t.Context(), opt)
	if err != nil || len(report.RemovedFiles) != 1 {
		t.Fatalf("open with a leftover: %v, %v", report.RemovedFiles, err)
	}
	if got := len(scanRows(t, s2, &record.Query{})); got != 2 {
		t.Fatalf("%d rows, want 2", got)
	}
	if err := s2.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s2.Put(t.Context(), batchOf(record.Key{}), WriterSeq{}); !errors.Is(err,
		ErrClosed) {
		t.Fatalf("put after close: %v", err)
	}
	_, _, err = Open(t.Context(), Options{Dir: opt.Dir, Shards: 3})
	if err == nil || !strings.Contains(err.Error(), "Shards") {
		t.Fatalf("three shards: %v", err)
	}
}

// Stats may be asked for while the store closes, for the race detector to watch.
func TestStatsDuringClose(t *testing.T) {
	s := openTest(t, Options{})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	size := s.Stats().SegmentBytes
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 1000 {
			if st := s.Stats(); st.Rows != 1 || st.SegmentBytes != size {
				t.Errorf("%d rows in %d bytes of segments, want 1 in %d", st.Rows,
					st.SegmentBytes, size)
				return
			}
		}
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}
