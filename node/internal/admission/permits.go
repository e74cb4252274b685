package admission

import (
	"context"
	"time"
)

// Permits bounds what runs at the same time, without a queue: its capacity is the number of
// permits.
type Permits chan struct{}

// NewPermits returns this number of permits, all of them free.
func NewPermits(number int) Permits { return make(Permits, number) }

// TryAcquire acquires a permit if one is free, and reports whether it was. The caller releases it.
func (p Permits) TryAcquire() bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		return false
	}
}

// AcquireWithin acquires a permit that is free within a time, and reports whether it was. The
// caller releases it.
func (p Permits) AcquireWithin(ctx context.Context, wait time.Duration) bool {
	if p.TryAcquire() {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Release releases a permit that was acquired.
func (p Permits) Release() { <-p }

// Drain waits until all permits are released. None is free afterwards.
func (p Permits) Drain() {
	for range cap(p) {
		p <- struct{}{}
	}
}
