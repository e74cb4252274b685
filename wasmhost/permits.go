package wasmhost

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// timeSlice is how long an owner keeps its permit while others wait: a few calls of a usual
	// plugin, one of a slow one. An owner that kept it longer is slow.
	timeSlice = 250 * time.Microsecond
	// recent is how long after its last call an owner still has a share of the permits: longer than
	// a scan takes to gather the next batch, so that a permit is free when it needs one. It is also
	// how long an owner stays slow, and how long native work is expected again.
	recent = 10 * time.Millisecond
	// An owner whose call used up its budget gets no permit for penaltyFactor times as long as it
	// had this one, and at most maxPenalty: an owner of endless loops gets a tenth of a processor.
	// With a quarter, every second short query of others was delayed by such a call.
	penaltyFactor = 9
	maxPenalty    = 20 * time.Millisecond
)

// callPermits shares the permits for guest calls fairly among owners, which are tenants or queries.
// An owner holds at most its share while others use permits, too, and the waiting owner that had
// the least time is served first. So an owner with many workers, or with calls that use up their
// budgets, does not delay the others.
// Native work, i.e. work of the node without guests, waits for a processor at each of its steps
// while guest calls run on all. So while there is native work, slow owners leave one permit free.
type callPermits struct {
	waiting    atomic.Int32 // waiters; read without the lock
	shared     atomic.Bool  // there are several owners, or permits are not held any more
	nativeWork *NativeWork

	// life is read-locked while an instance is used or a permit is held, and write-locked by
	// Host.Close, which therefore frees memory and code only when they are not used.
	life sync.RWMutex

	mu      sync.Mutex
	total   int
	free    int                    // guarded by mu, as are the owners
	owners  map[uint64]*owner      // that hold, wait, did so recently, or had more time than others
	minHad  time.Duration          // least time of an owner that was served: where new ones begin
	cached  map[*cachedPermit]bool // guarded by mu: held permits, also those in use
	closing bool                   // guarded by mu: permits are not held any more
	swept   time.Time              // guarded by mu: when idle owners were last removed
}

type owner struct {
	had          time.Duration // with permits, plus minHad when it came
	held         int           // permits
	queue        []chan struct{}
	last         time.Time // when it released a permit
	slow         time.Time // when it released one that it had used for long
	penaltyUntil time.Time // until then it gets none
}

func newCallPermits(n int, work *NativeWork) *callPermits {
	return &callPermits{total: n, free: n, owners: map[uint64]*owner{},
		cached: map[*cachedPermit]bool{}, nativeWork: work}
}

// contended reports whether a user of a permit must release it after a time slice: to a waiter, or
// because of native work.
func (s *callPermits) contended() bool { return s.waiting.Load() > 0 || s.nativeWork.isRunning() }

// reservesOne reports whether slow owners leave one permit free.
func (s *callPermits) reservesOne(now time.Time) bool {
	return s.total > 1 && s.nativeWork.isExpected(now)
}

// acquire waits for a permit. Its error is the context's.
func (s *callPermits) acquire(ctx context.Context, key uint64, now time.Time) error {
	s.mu.Lock()
	o := s.owner(key, now)
	if rest := o.penaltyUntil.Sub(now); rest > 0 {
		s.mu.Unlock()
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return fmt.Errorf("wait for a permit to run a plugin: %w", context.Cause(ctx))
		}
		s.mu.Lock()
		now = time.Now()
		o = s.owner(key, now)
	}
	// The usual case, without a look at all owners: one permit never exceeds a share.
	if s.waiting.Load() == 0 && s.free > 0 && (o.held == 0 || len(s.owners) == 1) &&
		s.mayHave(o, now) {
		s.grantTo(o)
		s.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	o.queue = append(o.queue, granted)
	s.waiting.Add(1)
	s.reclaimCached(now)
	s.grant(now)
	s.mu.Unlock()
	select {
	case <-granted:
		return nil
	default:
	}
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		s.leaveQueue(key, granted)
		return fmt.Errorf("wait for a permit to run a plugin: %w", context.Cause(ctx))
	}
}

// owner returns an owner, or makes one. It is called with mu held.
func (s *callPermits) owner(key uint64, now time.Time) *owner {
	o := s.owners[key]
	if o == nil {
		s.share(now) // removes idle owners
		o = &owner{had: s.minHad}
		s.owners[key] = o
		s.shared.Store(s.closing || len(s.owners) > 1)
	}
	return o
}

// penalize is called when a call of an owner used up its budget with a permit that it has held for
// a time.
func (s *callPermits) penalize(key uint64, held time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[key]
	if o.penaltyUntil.Before(now) {
		o.penaltyUntil = now
	}
	o.penaltyUntil = o.penaltyUntil.Add(penaltyFactor * held)
	if most := now.Add(maxPenalty); o.penaltyUntil.After(most) {
		o.penaltyUntil = most
	}
}

// leaveQueue gives up waiting, or releases a permit that was granted in the same moment.
func (s *callPermits) leaveQueue(key uint64, granted chan struct{}) {
	s.mu.Lock()
	o := s.owners[key]
	at := slices.Index(o.queue, granted)
	if at >= 0 {
		o.queue = slices.Delete(o.queue, at, at+1)
		s.waiting.Add(-1)
	}
	s.mu.Unlock()
	if at < 0 {
		s.release(key, 0, time.Now())
	}
}

// release releases a permit that an owner used for a time until now.
func (s *callPermits) release(key uint64, held time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(key, held, held, now)
}

// releaseLocked is release for an owner that used a permit for a time in total, and for a time
// since the last release. It is called with mu held.
func (s *callPermits) releaseLocked(key uint64, had, last time.Duration, now time.Time) {
	o := s.owners[key]
	o.had, o.held, o.last = o.had+had, o.held-1, now
	if last >= timeSlice {
		o.slow = now
	}
	s.free++
	if s.waiting.Load() > 0 {
		s.grant(now)
	}
}

// forget removes an owner that will not come back, so that it has no share any more.
func (s *callPermits) forget(key uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owners[key]; o != nil && o.held == 0 && len(o.queue) == 0 {
		s.remove(key)
		s.grant(time.Now())
	}
}

// remove is called with mu held.
func (s *callPermits) remove(key uint64) {
	delete(s.owners, key)
	s.shared.Store(s.closing || len(s.owners) > 1)
}

// grant grants free permits to waiters. A waiter that may not have one yet waits for the release of
// another permit, which calls grant again. It is called with mu held.
func (s *callPermits) grant(now time.Time) {
	for s.free > 0 {
		part := s.share(now)
		var next *owner
		for _, o := range s.owners {
			if len(o.queue) > 0 && o.held < part && (next == nil || o.had < next.had) &&
				s.mayHave(o, now) {
				next = o
			}
		}
		if next == nil {
			return
		}
		s.grantTo(next)
		granted := next.queue[0]
		next.queue = slices.Delete(next.queue, 0, 1)
		s.waiting.Add(-1) // before the waiter continues and reads it
		close(granted)
	}
}

// mayHave reports whether a free permit may go to an owner, or is reserved for native work.
func (s *callPermits) mayHave(o *owner, now time.Time) bool {
	return s.free > 1 || now.Sub(o.slow) >= recent || !s.reservesOne(now)
}

func (s *callPermits) grantTo(o *owner) {
	s.minHad = max(s.minHad, o.had)
	o.held++
	s.free--
}

// share returns how many permits one owner may hold, and removes idle owners that had no more time
// than others, or all idle ones when no permit is in use.
func (s *callPermits) share(now time.Time) int {
	sharing := 0
	for key, o := range s.owners {
		switch {
		case o.held > 0 || len(o.queue) > 0 || now.Sub(o.last) < recent:
			sharing++
		case now.Before(o.penaltyUntil):
		case o.had <= s.minHad || s.free == s.total:
			s.remove(key)
		}
	}
	return max(1, (s.total+sharing-1)/max(1, sharing))
}

// Owner is for whom an instance runs: permits for guest calls are shared fairly among keys, e.g. of
// tenants, and a pooled instance is reused within its pool only. All callers without an owner share
// the zero value.
type Owner struct{ Key, Pool uint64 }

// OwnerOf returns the owner of a key, with a pool of its own.
func OwnerOf(key uint64) Owner { return Owner{key, key} }
