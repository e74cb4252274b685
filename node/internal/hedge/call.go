// Package hedge decides when a slow call is made a second time elsewhere, and whose answer counts.
// It knows nothing of nodes, queries or rows: who calls runs the attempts.
//
// Its main types are [Call], a set of attempts of which one wins, and [Limiter], which says how
// long to wait before a second attempt. Both may be used by many goroutines; the package starts
// none.
package hedge

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrOvertaken cancels an attempt after another one has won.
var ErrOvertaken = errors.New("another node has answered before")

// Call is a set of attempts to get the same answer from different nodes. The attempt that has
// the whole answer first, or that first delivers rows of it, wins; the others are canceled.
type Call struct {
	Began time.Time // set by its maker; the zero value is ready otherwise

	mu       sync.Mutex
	attempts []*Attempt // guarded by mu
	winner   *Attempt   // guarded by mu
}

// Attempt is one attempt of a hedged call: at one node, or at several that together hold the same
// groups.
type Attempt struct {
	call   *Call
	Outer  *Attempt // of the hedged call that this one is nested in; nil without one
	cancel context.CancelCauseFunc
	took   time.Duration // until it won; guarded by the call's mu
}

// Start adds an attempt. Its context ends when another one wins.
func (r *Call) Start(ctx context.Context, outer *Attempt) (context.Context, *Attempt) {
	ctx, cancel := context.WithCancelCause(ctx)
	x := &Attempt{call: r, Outer: outer, cancel: cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, x)
	if r.winner != nil {
		cancel(ErrOvertaken)
	}
	return ctx, x
}

// CancelAll cancels all attempts.
func (r *Call) CancelAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.attempts {
		x.cancel(nil)
	}
}

// HasWinner reports whether an attempt has won.
func (r *Call) HasWinner() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.winner != nil
}

// Win makes x the winner if there is none yet, and reports whether it is.
func (x *Attempt) Win() bool {
	r := x.call
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.winner == nil {
		r.winner, x.took = x, time.Since(r.Began)
		for _, other := range r.attempts {
			if other != x {
				other.cancel(ErrOvertaken)
			}
		}
	}
	return r.winner == x
}

// Claim reports whether the attempt may deliver rows: it wins this call and those around it, so
// that no other attempt can.
func (x *Attempt) Claim() bool {
	return x == nil || x.Outer.Claim() && x.Win()
}

// Won reports whether x is the winner.
func (x *Attempt) Won() bool {
	x.call.mu.Lock()
	defer x.call.mu.Unlock()
	return x.call.winner == x
}

// Took returns how long the winner took, 0 of others.
func (x *Attempt) Took() time.Duration {
	x.call.mu.Lock()
	defer x.call.mu.Unlock()
	return x.took
}

// Cancel cancels the attempt for a cause.
func (x *Attempt) Cancel(cause error) { x.cancel(cause) }
