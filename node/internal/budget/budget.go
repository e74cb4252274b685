// Package budget limits the memory of requests while they arrive, in bytes.
//
// It knows nothing of the requests, and starts no goroutines. Its main type is [Budget].
package budget

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

// ErrTooLarge means that a request needs more than any one may have: it never fits.
var ErrTooLarge = errors.New("the memory for requests is less than this one needs")

// ErrFull means that other requests use the whole budget.
var ErrFull = errors.New("other requests fill the memory for requests that are coming in")

// Budget is memory that requests share. They take bytes as these arrive, never for an announced
// length, so requests that each hold a part of the budget could wait for each other forever.
// Therefore one of them at a time, the elder, may exceed the budget; the next one only when that is
// released. So at most the budget and the largest request are held. Released bytes go to the
// waiting requests in order, except those that need more. All methods may be called from many
// goroutines.
type Budget struct {
	total   int64
	largest int64 // of one share

	mu      sync.Mutex
	held    int64     // guarded by mu
	most    int64     // the greatest held so far; guarded by mu
	elder   *Share    // guarded by mu
	waiting []*waiter // guarded by mu
}

// Share is the memory that one request holds.
type Share struct {
	budget *Budget
	held   int64 // guarded by budget.mu
}

// waiter is a request that waits for bytes.
type waiter struct {
	share *Share
	bytes int64
	taken chan struct{} // closed, with mu held, when it has them
}

// New returns a budget of that many bytes, of which one request has largest at most; 0: any number.
func New(total, largest int64) *Budget {
	return &Budget{total: total, largest: cmp.Or(largest, math.MaxInt64)}
}

// Largest returns how many bytes one request has at most.
func (b *Budget) Largest() int64 { return b.largest }

// Used returns how many bytes are held.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Most returns the greatest number of bytes held so far.
func (b *Budget) Most() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}

// Contended reports whether a request waits for bytes: requests that hold some should hurry.
func (b *Budget) Contended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) > 0
}

// Share returns the share of a new request, which holds nothing.
func (b *Budget) Share() *Share { return &Share{budget: b} }

// try takes n bytes if they are free; it is called with mu held.
func (b *Budget) try(s *Share, n int64) bool {
	switch {
	case b.held+n <= b.total, b.elder == s:
	case b.elder == nil && (b.held <= b.total ||
		b.largest < math.MaxInt64 && b.held-s.held <= b.total): // its bound is that of one request
		b.elder = s
	default:
		return false
	}
	b.held += n
	b.most = max(b.most, b.held)
	s.held += n
	return true
}

// serve gives free bytes to waiting requests; it is called with mu held.
func (b *Budget) serve() {
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		taken := b.try(w.share, w.bytes)
		if taken {
			close(w.taken)
		}
		return taken
	})
}

// Take takes n bytes, and waits for them.
//
// Errors: ErrTooLarge; ErrFull after wait; the cause of ctx.
func (s *Share) Take(ctx context.Context, n int64, wait time.Duration) error {
	b := s.budget
	b.mu.Lock()
	if n > b.largest-s.held {
		b.mu.Unlock()
		return ErrTooLarge
	}
	if b.try(s, n) { // the waiting requests need more than is free
		b.mu.Unlock()
		return nil
	}
	w := &waiter{share: s, bytes: n, taken: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	select {
	case <-w.taken:
		return nil
	case <-timeout.C:
		return b.leave(w, ErrFull)
	case <-ctx.Done():
		return b.leave(w, context.Cause(ctx))
	}
}

// leave ends the wait of a request, unless it was served concurrently.
func (b *Budget) leave(w *waiter, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.waiting, w)
	if at < 0 {
		return nil
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	return err
}

// Release releases n bytes.
func (s *Share) Release(n int64) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.held -= n
	b.held -= n
	b.serve()
}

// Settle sets what a request holds that has arrived completely, which may be more than it took, or
// than the budget has.
func (s *Share) Settle(bytes int64) {
	s.Arrived()
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += bytes - s.held
	b.most = max(b.most, b.held)
	s.held = bytes
	b.serve()
}

// Arrived is called when a request has arrived completely: it takes no more, and is not the elder.
func (s *Share) Arrived() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.elder == s {
		b.elder = nil
		b.serve()
	}
}

// End releases all bytes of the share.
func (s *Share) End() { s.Settle(0) }
