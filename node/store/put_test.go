package store

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/sdk/record"
)

// A put that queues its batch after the committer has gone is told so.
func TestPutDuringCloseReturns(t *testing.T) {
	s, _, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	close(s.stop) // as Close does, between a put's look at closed and its commit
	s.wg.Wait()
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := s.Put(ctx, batchOf(record.Key{MID: 1}), WriterSeq{})
		cancel()
		if !errors.Is(err, ErrClosed) {
			t.Fatalf("put on a store that closes: %v", err)
		}
	}
	if err := s.closeFiles(); err != nil {
		t.Fatal(err)
	}
}

// A retry that meets its first attempt still waiting for space does not share the context of that.
func TestRetryOutlivesFirstContext(t *testing.T) {
	s := openTest(t, Options{PutWait: time.Minute})
	s.headBudget.Add(s.opt.HeadBytes) // no space
	w := WriterSeq{ID: [16]byte{3}, Seq: 1}
	b := batchOf(record.Key{MID: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Put(ctx, b, w); !errors.Is(err, context.Canceled) {
			t.Errorf("the first attempt: %v", err)
		}
	})
	for s.headBudget.Delayed() == 0 {
		runtime.Gosched()
	}
	wg.Go(func() {
		if res, err := s.Put(t.Context(), b, w); err != nil || res.Duplicate {
			t.Errorf("the retry: %+v, %v", res, err)
		}
	})
	for range 1000 { // so that the retry is likely to meet the first attempt
		runtime.Gosched()
	}
	cancel()
	for s.headBudget.Delayed() == 1 && !t.Failed() {
		runtime.Gosched()
	}
	s.headBudget.Add(-s.opt.HeadBytes)
	wg.Wait()
}

// TestScanAllocatesLittle: a scan of a device keeps nothing and makes nothing but its sink.
func TestScanAllocatesLittle(t *testing.T) {
	rounds.NotUnderRace(t, "it counts allocations")
	s := openTest(t, Options{HeadShards: 1, parallelRows: scan.ParallelRows})
	rng := randomSource(t)
	for range 3 {
		mustPut(t, s, shape{cids: 2, mids: 50, moids: 2, caps: 5000}.batch(rng, 5000, 0),
			WriterSeq{})
		mustSeal(t, s)
	}
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		q := record.Query{View: view, Box: record.Box{record.CID: {record.At(1)},
			record.MID: {{From: 40, To: 400}}}}
		rows := 0
		sink := func(b *record.Batch) error { rows += b.Len(); return nil }
		newSink := func(int) (Sink, error) { return sink, nil }
		allocations := math.Inf(1)
		for range 5 { // the whole process counts, and what the collector takes from pools
			allocations = min(allocations, testing.AllocsPerRun(200, func() {
				if _, err := s.Scan(t.Context(), &q, newSink); err != nil {
					t.Fatal(err)
				}
			}))
		}
		if rows == 0 || allocations > 3 && !rounds.Race {
			t.Errorf("%v: %d rows, %v allocations", view, rows, allocations)
		}
	}
}
