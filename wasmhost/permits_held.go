package wasmhost

import (
	"context"
	"sync/atomic"
	"time"
)

// To acquire and release a permit writes to cache lines that all processors share, and costs as
// much as a guest call with a thousand rows; so do two readings of the clock. So an owner that is
// alone holds its permits between calls. A held permit counts as free: a caller that finds no free
// permit reclaims it.

// States of a held permit. In permitHeld, the first compare-and-swap owns it.
const (
	permitAbsent = iota // there is none, or its user releases it after the call
	permitUsed          // its user is in a call
	permitHeld          // its user is not in a call
)

// heldPermit is a permit that its user holds between calls. The zero value is ready. Unless it is
// absent, callPermits.life is read-locked.
type heldPermit struct {
	state      atomic.Int32
	owner      uint64
	unreported time.Duration // not added to the owner's time yet; written by its user or reclaimer
	listed     bool          // it is in callPermits.held; likewise
}

// enter takes the held permit if it is still there, or acquires one.
func (s *callPermits) enter(ctx context.Context, k *heldPermit) (kept bool, err error) {
	if k.state.CompareAndSwap(permitHeld, permitUsed) {
		return true, nil
	}
	s.life.RLock()
	if err := s.acquire(ctx, k.owner, time.Now()); err != nil {
		s.life.RUnlock()
		return false, err
	}
	k.state.Store(permitUsed)
	return false, nil
}

// leave holds a permit that was used for a time, or releases it if others may want one. The owner
// used it for a time of had in total since its last report.
func (s *callPermits) leave(k *heldPermit, held, had time.Duration, now time.Time) {
	k.unreported += had
	if held >= timeSlice || s.wanted() {
		s.releaseUsed(k, now, held)
		return
	}
	if !k.listed {
		s.mu.Lock()
		s.held[k], k.listed = true, true
		s.mu.Unlock()
	}
	s.hold(k)
}

// wanted reports whether another owner may want a permit.
func (s *callPermits) wanted() bool { return s.waiting.Load() > 0 || s.shared.Load() }

// hold holds a listed permit, unless others may want it.
func (s *callPermits) hold(k *heldPermit) {
	k.state.Store(permitHeld)
	// A waiter has either looked for held permits after the Store, or is seen here.
	if s.wanted() {
		s.releaseHeld(k)
	}
}

// holdNone releases all held permits, and lets none be held from now on.
func (s *callPermits) holdNone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.shared.Store(true)
	s.reclaimHeld(time.Now())
}

// releaseHeld releases a permit if it is held.
func (s *callPermits) releaseHeld(k *heldPermit) {
	if k.state.CompareAndSwap(permitHeld, permitUsed) {
		s.releaseUsed(k, time.Now(), 0)
	}
}

// releaseUsed releases a permit in use, whose last use took a time.
func (s *callPermits) releaseUsed(k *heldPermit, now time.Time, last time.Duration) {
	defer s.life.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(k)
	had := k.unreported
	k.unreported = 0
	s.releaseLocked(k.owner, had, last, now)
	if s.shared.Load() && now.Sub(s.swept) >= recent {
		s.swept = now
		s.share(now) // removes idle owners: the one that is left may be alone
	}
}

// discard is called when the user of a permit has lost it, but still has life read-locked.
func (s *callPermits) discard(k *heldPermit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(k)
}

// unlist is called with mu held.
func (s *callPermits) unlist(k *heldPermit) {
	delete(s.held, k)
	k.listed = false
	k.state.Store(permitAbsent)
}

// reclaimHeld frees all held permits. It is called with mu held.
func (s *callPermits) reclaimHeld(now time.Time) {
	for k := range s.held {
		if !k.state.CompareAndSwap(permitHeld, permitUsed) {
			continue
		}
		s.unlist(k)
		o := s.owners[k.owner]
		o.had, o.held, o.last = o.had+k.unreported, o.held-1, now
		k.unreported = 0
		s.free++
		s.life.RUnlock()
	}
}
