package tstorage

import (
	"context"
	"sync"
	"time"
)

// budget bounds the memory of the batches that are coming in. Bytes are taken as they come, never
// on the word of a length, so batches that each hold a part of the budget could wait for each
// other for ever. Therefore one of them at a time, the elder, may go on beyond the budget; the next
// one only when that is paid back. At most the budget and one batch are held.
type budget struct {
	total int64

	mu    sync.Mutex
	held  int64         // guarded by mu
	elder *share        // guarded by mu
	freed chan struct{} // closed and replaced when any of the above falls; guarded by mu
}

// share is what one request holds of a budget.
type share struct{ budget *budget }

func newBudget(total int64) *budget { return &budget{total: total, freed: make(chan struct{})} }

func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// try takes n bytes, or returns what is closed when it may be tried again.
func (b *budget) try(s *share, n int64) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.held+n <= b.total, b.elder == s:
	case b.elder == nil && b.held <= b.total:
		b.elder = s
	default:
		return b.freed
	}
	b.held += n
	return nil
}

// take takes n bytes for a request, and waits for them.
func (s *share) take(ctx context.Context, n int64, wait time.Duration) error {
	freed := s.budget.try(s, n)
	if freed == nil {
		return nil
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for freed != nil {
		select {
		case <-freed:
		case <-timeout.C:
			return errMemory
		case <-ctx.Done():
			return ctx.Err()
		}
		freed = s.budget.try(s, n)
	}
	return nil
}

// give gives n bytes back.
func (s *share) give(n int64) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.budget.held -= n
	s.budget.wake()
}

// whole says that the batch of a request has come whole: it takes no more, and is no elder.
func (s *share) whole() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if s.budget.elder == s {
		s.budget.elder = nil
		s.budget.wake()
	}
}

func (b *budget) wake() {
	close(b.freed)
	b.freed = make(chan struct{})
}
