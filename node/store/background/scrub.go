package background

import (
	"context"
	"sync"
	"time"
)

const (
	// DefaultScrubEvery is how long a pass over all files takes: what rots is found while the other
	// replicas, or the backups of a week, still have it, and reading costs little:
	// 1.7 MB/s for 1 TB.
	DefaultScrubEvery = 7 * 24 * time.Hour
	// DefaultScrubRate is what all stores of a process read at most: a tenth of a slow disk.
	DefaultScrubRate = 16 << 20
)

// Scrub is how fast the stores of a process read their files in search of damage. Stores that share
// one share its rate.
type Scrub struct {
	every time.Duration
	rate  int64

	mu   sync.Mutex
	next time.Time // guarded by mu: when the rate allows the next read
}

// NewScrub has a store read everything once in a time, 0 for never, but no faster than a rate.
func NewScrub(every time.Duration, bytesPerSec int64) *Scrub {
	return &Scrub{every: every, rate: bytesPerSec}
}

// Pause returns how long to wait after n bytes of a store that has some in all.
func (sc *Scrub) Pause(n, all int64, now time.Time) time.Duration {
	own := time.Duration(float64(sc.every) * float64(n) / float64(max(n, all, 1)))
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.next.Before(now) {
		sc.next = now
	}
	sc.next = sc.next.Add(time.Duration(float64(n) / float64(sc.rate) * float64(time.Second)))
	return max(own, sc.next.Sub(now))
}

// BytesPerSec returns what all stores read at most.
func (sc *Scrub) BytesPerSec() int64 { return sc.rate }

// Every returns how long a pass takes; 0: there are none.
func (sc *Scrub) Every() time.Duration { return sc.every }

// Wait waits as long as reading n bytes of some in all should take.
//
// Errors: ctx.Err().
func (sc *Scrub) Wait(ctx context.Context, n, all int64) error {
	timer := time.NewTimer(sc.Pause(n, all, time.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
