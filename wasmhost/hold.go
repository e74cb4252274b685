package wasmhost

import (
	"context"
	"fmt"
	"time"
)

// hold is a slot of an owner in which an instance is made.
type hold struct {
	owner uint64
	since time.Time // when it was taken last
	away  bool      // it was given to others and not taken again, as the context ended
}

// enter takes a slot for guest calls of an owner and keeps the host open until leave.
func (h *Host) enter(ctx context.Context, owner uint64) (*hold, error) {
	h.slots.life.RLock()
	if h.closed {
		h.slots.life.RUnlock()
		return nil, ErrClosed
	}
	if err := h.slots.take(ctx, owner, time.Now()); err != nil {
		h.slots.life.RUnlock()
		return nil, err
	}
	return &hold{owner: owner, since: time.Now()}, nil
}

// pause lets others have the slot who wait for it, if it was held for a turn.
func (b *hold) pause(ctx context.Context, h *Host) error {
	s := h.slots
	if !s.claimed() || b.away {
		return nil
	}
	now := time.Now()
	if now.Sub(b.since) < turn {
		return nil
	}
	h.counter.callNs.Add(int64(now.Sub(b.since)))
	s.give(b.owner, now.Sub(b.since), now)
	if err := s.take(ctx, b.owner, now); err != nil {
		b.away = true
		return fmt.Errorf("start an instance: %w", err)
	}
	b.since = time.Now()
	return nil
}

func (h *Host) leave(b *hold) {
	if !b.away {
		now := time.Now()
		h.counter.callNs.Add(int64(now.Sub(b.since)))
		h.slots.give(b.owner, now.Sub(b.since), now)
	}
	h.slots.life.RUnlock()
}
