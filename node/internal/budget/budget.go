// Package budget bounds the memory of what is coming in, by bytes.
//
// It knows nothing of what comes, and starts no goroutines. Its main type is [Budget].
package budget

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull means that what else is coming in fills the memory for it.
var ErrFull = errors.New("other requests fill the memory for requests that are coming in")

// Budget is memory that requests share. Bytes are taken as they come, never on the word of a
// length, so requests that each hold a part of the budget could wait for each other for ever.
// Therefore one of them at a time, the elder, may go on beyond the budget; the next one only when
// that is paid back. At most the budget and one request are held. All methods may be called from
// many goroutines.
type Budget struct {
	total int64

	mu    sync.Mutex
	held  int64         // guarded by mu
	elder *Share        // guarded by mu
	freed chan struct{} // closed and replaced when any of the above falls; guarded by mu
}

// Share is what one request holds of a budget.
type Share struct {
	budget *Budget
	held   int64 // guarded by budget.mu
}

// New returns a budget of a number of bytes.
func New(total int64) *Budget { return &Budget{total: total, freed: make(chan struct{})} }

// Used returns how many bytes are held.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Share returns the share of a new request, which holds nothing.
func (b *Budget) Share() *Share { return &Share{budget: b} }

// try takes n bytes, or returns what is closed when it may be tried again.
func (b *Budget) try(s *Share, n int64) <-chan struct{} {
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
	s.held += n
	return nil
}

// Take takes n bytes, and waits for them.
//
// Errors: ErrFull after wait; the cause of ctx.
func (s *Share) Take(ctx context.Context, n int64, wait time.Duration) error {
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
			return ErrFull
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		freed = s.budget.try(s, n)
	}
	return nil
}

// Give gives n bytes back.
func (s *Share) Give(n int64) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.held -= n
	b.held -= n
	b.wake()
}

// Whole says that a request has come whole: it takes no more, and is no elder.
func (s *Share) Whole() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.elder == s {
		b.elder = nil
		b.wake()
	}
}

// End gives everything back that is held.
func (s *Share) End() {
	s.Whole()
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.held > 0 {
		b.held -= s.held
		s.held = 0
		b.wake()
	}
}

// wake is called with mu held.
func (b *Budget) wake() {
	close(b.freed)
	b.freed = make(chan struct{})
}
