package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	latenessBatch = 500 // records of a put
	// latenessPatience is how long a record may be late.
	latenessPatience = 30 * time.Second
)

// lateness measures how long after a batch was acknowledged all of it has come to a follower.
type lateness struct {
	follower *client.Client
	writers  []*client.Client // in turn
	putters  int              // puts that may be in progress at a time
	rate     int              // records a second
	lasts    time.Duration

	mu    sync.Mutex          // guards what follows
	acked map[int64]time.Time // when a batch was acknowledged, by its cap
	came  map[int64]int       // records of a batch
	whole map[int64]time.Time // when all of a batch had come
	late  time.Duration       // how long after it was due the latest put began
}

// measure returns how late each batch was in ms, sorted.
func (l *lateness) measure(ctx context.Context) (took []float64, err error) {
	l.acked, l.came, l.whole = map[int64]time.Time{}, map[int64]int{}, map[int64]time.Time{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var failed error
	wg.Go(func() {
		defer cancel()
		failed = l.follow(ctx, sync.OnceFunc(func() { close(ready) }))
	})
	select {
	case <-ready:
	case <-ctx.Done():
		wg.Wait()
		return nil, failed
	}
	if err := l.put(ctx); err != nil {
		return nil, err
	}
	for end := time.Now().Add(latenessPatience); ; {
		took, missing := l.results()
		if missing == 0 {
			return took, nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil || time.Now().After(end) {
			return nil, fmt.Errorf("%d of %d batches have not come: %w", missing, len(l.acked), err)
		}
	}
}

// follow notes when records come.
func (l *lateness) follow(ctx context.Context, ready func()) error {
	for b, err := range l.follower.ChangeBatches(ctx, &record.Query{}, client.FromNow) {
		if err != nil {
			return err
		}
		ready()
		if b.Rows == nil {
			continue
		}
		now := time.Now()
		l.mu.Lock()
		for _, ns := range b.Rows.CapNs {
			if l.came[ns]++; l.came[ns] == latenessBatch {
				l.whole[ns] = now
			}
		}
		l.mu.Unlock()
	}
	return nil
}

// put puts batches at their times, each of the same devices, which are a few neighbouring slots: so
// most groups of a cluster get nothing.
func (l *lateness) put(ctx context.Context) error {
	began, interval := time.Now(), time.Second*latenessBatch/time.Duration(l.rate)
	var next atomic.Int64
	errs := make([]error, l.putters)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for errs[i] == nil {
				number := next.Add(1) - 1
				due := began.Add(time.Duration(number) * interval)
				if due.Sub(began) >= l.lasts {
					return
				}
				errs[i] = l.putOne(ctx, l.writers[int(number)%len(l.writers)], due)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *lateness) putOne(ctx context.Context, db *client.Client, due time.Time) error {
	if err := until(ctx, due); err != nil {
		return err
	}
	late := time.Since(due)
	var b record.Batch
	for i := range int64(latenessBatch) {
		b.Append(record.Key{MID: i, MOID: 1, CapNs: due.UnixNano()}, make([]byte, 16))
	}
	if _, err := db.Put(ctx, &b, [16]byte{}, 0); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[due.UnixNano()] = time.Now()
	l.late = max(l.late, late)
	return nil
}

// results returns how late what came was, sorted, and how many batches have not come.
func (l *lateness) results() (took []float64, missing int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ns, at := range l.acked {
		if came, ok := l.whole[ns]; ok {
			took = append(took, max(0, ms(came.Sub(at))))
		} else {
			missing++
		}
	}
	slices.Sort(took)
	return took, missing
}

// tell returns what was found in words, and p50 and p99 in ms.
func (l *lateness) tell(took []float64) (text string, p50, p99 float64) {
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))] }
	return fmt.Sprintf("latency of %d batches of %d records, puts at most %v late: p50 %.2f ms, "+
		"p99 %.2f ms, at most %.2f ms", len(took), latenessBatch, l.late.Round(time.Millisecond),
		at(0.5), at(0.99), at(1)), at(0.5), at(0.99)
}
