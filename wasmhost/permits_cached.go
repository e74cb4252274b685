package wasmhost

import (
	"context"
	"sync/atomic"
	"time"
)

// To acquire and release a permit writes to cache lines that all processors share, and costs as
// much as a guest call with a thousand rows; so do two readings of the clock. So an owner that is
// alone caches its permits between calls. A cached permit counts as free: a caller that finds no
// free permit reclaims it.

// States of a cached permit. In permitCached, the first compare-and-swap owns it.
const (
	permitAbsent = iota // there is none, or its user releases it after the call
	permitUsed          // its user is in a call
	permitCached        // its user is not in a call
)

// cachedPermit is a permit that its user caches between calls. The zero value is ready. Unless it
// is absent, callPermits.life is read-locked.
type cachedPermit struct {
	state      atomic.Int32
	owner      uint64
	unreported time.Duration // not added to the owner's time yet; written by its user or reclaimer
	listed     bool          // it is in callPermits.cached; likewise
}

// enter takes the cached permit if it is still there, or acquires one.
func (s *callPermits) enter(ctx context.Context, k *cachedPermit) (kept bool, err error) {
	if k.state.CompareAndSwap(permitCached, permitUsed) {
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

// leave caches a permit that was used for a time, or releases it if others may want one. The owner
// used it for a time of had in total since its last report.
func (s *callPermits) leave(k *cachedPermit, held, had time.Duration, now time.Time) {
	k.unreported += had
	if held >= timeSlice || s.wanted() {
		s.releaseUsed(k, now, held)
		return
	}
	if !k.listed {
		s.mu.Lock()
		s.cached[k], k.listed = true, true
		s.mu.Unlock()
	}
	s.cache(k)
}

// wanted reports whether another owner may want a permit.
func (s *callPermits) wanted() bool { return s.waiting.Load() > 0 || s.shared.Load() }

// cache caches a listed permit, unless others may want it.
func (s *callPermits) cache(k *cachedPermit) {
	k.state.Store(permitCached)
	// A waiter has either looked for cached permits after the Store, or is seen here.
	if s.wanted() {
		s.releaseCached(k)
	}
}

// dropCached releases all cached permits, and lets none be cached from now on.
func (s *callPermits) dropCached() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.shared.Store(true)
	s.reclaimCached(time.Now())
}

// releaseCached releases a permit if it is cached.
func (s *callPermits) releaseCached(k *cachedPermit) {
	if k.state.CompareAndSwap(permitCached, permitUsed) {
		s.releaseUsed(k, time.Now(), 0)
	}
}

// releaseUsed releases a permit in use, whose last use took a time.
func (s *callPermits) releaseUsed(k *cachedPermit, now time.Time, last time.Duration) {
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
func (s *callPermits) discard(k *cachedPermit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(k)
}

// unlist is called with mu held.
func (s *callPermits) unlist(k *cachedPermit) {
	delete(s.cached, k)
	k.listed = false
	k.state.Store(permitAbsent)
}

// reclaimCached frees all cached permits. It is called with mu held.
func (s *callPermits) reclaimCached(now time.Time) {
	for k := range s.cached {
		if !k.state.CompareAndSwap(permitCached, permitUsed) {
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
