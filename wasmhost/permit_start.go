package wasmhost

import (
	"context"
	"fmt"
	"time"
)

// startPermit is the permit under which an instance is started.
type startPermit struct {
	owner uint64
	since time.Time // when it was acquired last
	lost  bool      // it was released in pause and not acquired again, because the context ended
}

// enter acquires a permit for guest calls of an owner and keeps the host open until leave.
func (h *Host) enter(ctx context.Context, owner uint64) (*startPermit, error) {
	h.permits.life.RLock()
	if h.closed {
		h.permits.life.RUnlock()
		return nil, ErrClosed
	}
	if err := h.permits.acquire(ctx, owner, time.Now()); err != nil {
		h.permits.life.RUnlock()
		return nil, err
	}
	return &startPermit{owner: owner, since: time.Now()}, nil
}

// pause releases the permit to others that wait, if it was used for a time slice, and acquires it
// again.
func (b *startPermit) pause(ctx context.Context, h *Host) error {
	s := h.permits
	if !s.contended() || b.lost {
		return nil
	}
	now := time.Now()
	if now.Sub(b.since) < timeSlice {
		return nil
	}
	h.counter.callNs.Add(int64(now.Sub(b.since)))
	s.release(b.owner, now.Sub(b.since), now)
	if err := s.acquire(ctx, b.owner, now); err != nil {
		b.lost = true
		return fmt.Errorf("start an instance: %w", err)
	}
	b.since = time.Now()
	return nil
}

func (h *Host) leave(b *startPermit) {
	if !b.lost {
		now := time.Now()
		h.counter.callNs.Add(int64(now.Sub(b.since)))
		h.permits.release(b.owner, now.Sub(b.since), now)
	}
	h.permits.life.RUnlock()
}
