package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/throttle"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestMerge seals often, so that merges go on all the time, and compares what queries see, beside
// merges, after them and after reopening, with a slice.
func TestMerge(t *testing.T) {
	for name, sh := range map[string]shape{
		"few keys":  {cids: 2, mids: 5, moids: 2, caps: 20},
		"many keys": {cids: 50, mids: 5000, moids: 5, caps: 10000, varied: true},
	} {
		t.Run(name, func(t *testing.T) {
			rng := randomSource(t)
			opt := Options{Dir: t.TempDir(), Shards: 1 + rng.IntN(2), Now: leapingClock(),
				Index: index.Options{BlockRows: 64}, TileBytes: 4 << 10,
				SealRows: []int{0, 200, 400}[rng.IntN(3)]} // few: merges take blocks over
			s := openTest(t, opt)
			m := &model{}
			for step := range rounds.Of(60, 30, 25) {
				b := sh.batch(rng, 1+rng.IntN(300), time.Now().UnixNano())
				m.add(b, splitByShard(b, len(s.shards)), mustPut(t, s, b, WriterSeq{}))
				if rng.IntN(3) > 0 {
					mustSeal(t, s)
				}
				checkQueries(t, rng, s, sh, m, fmt.Sprintf("step %d", step), 3)
			}
			if err := s.WaitForMerges(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.Stats().Merges == 0 {
				t.Fatal("nothing was merged")
			}
			checkQueries(t, rng, s, sh, m, "settled", fewer(50))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openTest(t, opt)
			checkQueries(t, rng, s, sh, m, "opened again", fewer(50))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func mustSeal(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// checkQueries compares the answers to random queries, and to the one for everything, with a model.
func checkQueries(
	t *testing.T, rng *rand.Rand, s *Store, sh shape, m *model, when string, queries int,
) {
	t.Helper()
	compare(t, when, scanRows(t, s, &record.Query{}), m.query(&record.Query{}))
	for range queries {
		q := sh.query(rng, m)
		compare(t, fmt.Sprintf("%s: %+v", when, q), scanRows(t, s, q), m.query(q))
	}
}

// TestMergeOfDamage: a merge that meets damage says so, and nothing is lost or replaced.
func TestMergeOfDamage(t *testing.T) {
	for _, sealRows := range []int{0, 1000} { // the latter take blocks over
		testMergeOfDamage(t, sealRows)
	}
}

func testMergeOfDamage(t *testing.T, sealRows int) {
	s := openTest(t, Options{Shards: 1, SealRows: sealRows, Index: index.Options{BlockRows: 64},
		Scrub:     background.NewScrub(0, 1),         // so that a merge meets the damage first
		idleAfter: time.Hour, mergeRetry: time.Hour}) // however slow the machine is
	rng := randomSource(t)
	sh := shape{cids: 1, mids: 50, moids: 1, caps: 1000}
	for range mergepolicy.FanIn - 1 {
		mustPut(t, s, sh.batch(rng, 1000, 0), WriterSeq{})
		mustSeal(t, s)
	}
	path := s.shards[0].State.Load().Sealed[1].File.Path()
	flipByte(t, path, 300)
	mustPut(t, s, sh.batch(rng, 1000, 0), WriterSeq{})
	var damage *durable.CorruptError
	if err := s.WaitForMerges(t.Context()); !errors.As(err, &damage) || damage.File != path {
		t.Fatalf("merged over damage in %s: %v; %+v", path, err, s.Stats())
	}
	if st := s.Stats(); st.Segments != mergepolicy.FanIn || st.Merges != 0 || st.MergeErr == nil {
		t.Fatalf("%d segments, %d merges, %v", st.Segments, st.Merges, st.MergeErr)
	}
}

// TestWriteThrottle: commits take longer when segments have piled up, and are counted.
func TestWriteThrottle(t *testing.T) {
	s := openTest(t, Options{Shards: 1})
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The merger, which was woken, may note once more that there is no backlog.
	for try := 0; try < 100 && s.Stats().ThrottledNs == 0; try++ {
		s.throttle.SetBacklog(throttle.SlowdownFrom + 5)
		mustPut(t, s, shape{cids: 1, mids: 5, moids: 1, caps: 100}.batch(randomSource(t), 1000, 0),
			WriterSeq{})
		if err := s.onCommitter(t.Context(), func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Stats().ThrottledNs; got != 5*throttle.NsPerRow*1000 {
		t.Fatalf("paced by %d ns", got)
	}
}

func flipByte(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// TestMergeDuringScans holds scans open over merges: a segment that is gone from the directory is
// still read by those who began before.
func TestMergeDuringScans(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Shards: 1, Workers: 1})
	sh := shape{cids: 1, mids: 50, moids: 1, caps: 1000}
	rng := randomSource(t)
	total := 0
	for range mergepolicy.FanIn - 1 {
		mustPut(t, s, sh.batch(rng, 1000, 0), WriterSeq{})
		total += 1000
		mustSeal(t, s)
	}
	var wg sync.WaitGroup
	merged := make(chan struct{})
	for range 4 {
		seen := 0
		_, err := s.Scan(t.Context(), &record.Query{}, func(int) (Sink, error) {
			return func(b *record.Batch) error {
				if seen == 0 {
					wg.Go(func() {
						mustPut(t, s, sh.batch(rand.New(rand.NewPCG(1, 1)), 1000, 0), WriterSeq{})
						if err := s.WaitForMerges(t.Context()); err != nil {
							t.Error(err)
						}
						merged <- struct{}{}
					})
					<-merged
				}
				seen += b.Len()
				return nil
			}, nil
		})
		if err != nil || seen != total {
			t.Fatalf("%d rows, want %d, %v", seen, total, err)
		}
		wg.Wait()
		total += 1000
	}
	if s.Stats().Merges == 0 {
		t.Fatal("nothing was merged")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
