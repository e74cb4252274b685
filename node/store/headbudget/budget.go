// Package headbudget bounds the memory of the heads of a store: puts wait while it is full.
//
// It does not know heads, nor how they are sealed: its caller counts their bytes and tells how
// seals end. Its main type is [Budget]. It starts no goroutine.
package headbudget

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a budget.
type Options struct {
	MaxBytes int64           // of all heads, from which on puts wait
	Wait     time.Duration   // how long a put waits at most
	Stop     <-chan struct{} // closed when nothing is put any more

	Overloaded error // of a put that has waited in vain
	Stopped    error // of one that waits when Stop is closed
}

// Budget counts the bytes of heads. All methods may be called from many goroutines.
type Budget struct {
	opt     Options
	delayed atomic.Int64

	mu      sync.Mutex
	bytes   int64         // of all heads, guarded by mu
	changed chan struct{} // closed and replaced when a put need not wait on, guarded by mu
	sealErr error         // why the last seal failed, guarded by mu
}

// New returns a budget of which nothing is taken.
func New(opt Options) *Budget { return &Budget{opt: opt, changed: make(chan struct{})} }

// Wait delays a put of that many bytes while the budget is full. A put that is larger than what
// is free waits only while more than half is taken: the caller seals from there on.
//
// Errors: Options.Overloaded, with why seals fail, or after Options.Wait; Options.Stopped;
// ctx.Err().
func (b *Budget) Wait(ctx context.Context, bytes int64) error {
	var timeout <-chan time.Time
	for {
		b.mu.Lock()
		full := b.bytes >= b.opt.MaxBytes ||
			b.bytes > b.opt.MaxBytes/2 && bytes > b.opt.MaxBytes-b.bytes
		changed, failed := b.changed, b.sealErr
		b.mu.Unlock()
		if !full {
			return nil
		}
		if failed != nil {
			return fmt.Errorf("%w: %w", b.opt.Overloaded, failed)
		}
		if timeout == nil {
			b.delayed.Add(1)
			timeout = time.After(b.opt.Wait)
		}
		select {
		case <-changed:
		case <-timeout:
			return b.opt.Overloaded
		case <-b.opt.Stop:
			return b.opt.Stopped
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Add accounts for bytes of rows that entered (n > 0) or left (n < 0) the heads.
func (b *Budget) Add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += n
	if n < 0 {
		b.wake()
	}
}

// wake makes puts that wait look again; mu is held.
func (b *Budget) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Bytes returns what the heads take.
func (b *Budget) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

// IsFull reports whether puts wait.
func (b *Budget) IsFull() bool { return b.Bytes() >= b.opt.MaxBytes }

// Delayed returns how many puts have waited.
func (b *Budget) Delayed() int64 { return b.delayed.Load() }

// SealErr returns why sealing does not go on; nil: it does.
func (b *Budget) SealErr() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sealErr
}

// SetSealErr notes why sealing does not go on, or that it does, and tells puts that wait for it.
func (b *Budget) SetSealErr(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && b.sealErr == nil {
		return
	}
	b.sealErr = err
	b.wake()
}
