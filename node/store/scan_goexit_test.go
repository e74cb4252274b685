package store

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestLeave: each worker but the first that had a consumer leaves once, when it has given its rows.
func TestLeave(t *testing.T) {
	rng := randomSource(t)
	s := openMixedSizes(t, rng, Options{Workers: 4, parallelRows: 1,
		Index: index.Options{BlockRows: 256}})
	left := 0
	for range 50 {
		var mu sync.Mutex
		var leaving sync.WaitGroup
		leaves := map[int]int{}
		var others atomic.Int32
		_, err := s.ScanInto(t.Context(), &record.Query{}, 1, func(worker int) (Consumer, error) {
			if worker > 0 {
				leaving.Add(1)
				others.Add(1)
			}
			rows := func(*record.Batch) error {
				for k := 0; worker == 0 && k < 1_000_000 && others.Load() == 0; k++ {
					runtime.Gosched()
				}
				mu.Lock()
				defer mu.Unlock()
				if leaves[worker] > 0 {
					t.Errorf("rows come to worker %d that has left", worker)
				}
				return nil
			}
			leave := func() {
				mu.Lock()
				defer mu.Unlock()
				leaves[worker]++
				leaving.Done()
			}
			return Consumer{Rows: rows, Columns: segment.Keys, Done: leave}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		leaving.Wait()
		mu.Lock()
		for worker, times := range leaves {
			if worker == 0 || times != 1 {
				t.Errorf("worker %d left %d times", worker, times)
			}
			left++
		}
		mu.Unlock()
	}
	if left == 0 {
		t.Error("nobody left")
	}
}

// TestGoexitOfOneWorker: a scan ends also when a sink ends the goroutine of another worker than the
// first.
func TestGoexitOfOneWorker(t *testing.T) {
	s := openMixedSizes(t, randomSource(t), Options{Workers: 4, parallelRows: 1,
		Index: index.Options{BlockRows: 256}})
	for range 20 {
		_, err := s.Scan(t.Context(), &record.Query{}, func(worker int) (Sink, error) {
			return func(*record.Batch) error {
				if worker > 0 {
					runtime.Goexit()
				}
				return nil
			}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
