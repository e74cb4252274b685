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
	// turn is how long an owner keeps its slot while others wait: a few calls of a usual plugin,
	// one of a slow one. An owner who kept it longer is slow.
	turn = 250 * time.Microsecond
	// recent is how long after its last call an owner counts as one that shares the slots: longer
	// than a scan takes to gather the next batch, so that its slot is free when it comes back and
	// not someone else's for the rest of a turn. So long an owner stays slow, too,
	// and whoever works without guests is expected back.
	recent = 10 * time.Millisecond
	// An owner whose call used up its budget takes no slot for so many times as long as it had this
	// one, and at most restMost: whoever has nothing but endless loops has a tenth of a processor.
	// With a quarter, every second short question of others met one of these calls.
	restTimes = 9
	restMost  = 20 * time.Millisecond
)

// slots shares the slots for guest calls among owners, who are tenants or queries. None holds more
// than its part while others use slots, too, and of those who wait the one goes first that had the
// least time. So one owner with many workers, or with calls that use up their budgets, leaves the
// others theirs.
//
// What works without guests has a processor to wait for at each of its steps while calls run on
// all. So beside it slow owners leave one slot free.
type slots struct {
	waiting atomic.Int32 // waiters, so that holders need no lock to see that there are none
	working atomic.Int32 // who works without guests
	worked  atomic.Int64 // when the last of those ended, after began
	several atomic.Bool  // there are several owners, or slots are kept no more
	began   time.Time

	// life is held for reading by whatever uses an instance or keeps a slot, and for writing by
	// Host.Close, which therefore frees memory and code only when nobody uses them.
	life sync.RWMutex

	mu     sync.Mutex
	all    int
	free   int                // guarded by mu, as are the owners
	owners map[uint64]*owner  // that hold, wait, did so recently, or had more than others
	served time.Duration      // time that the owner served last had had: where newcomers begin
	kept   map[*keptSlot]bool // guarded by mu: slots that are kept, or were and are used again
	ending bool               // guarded by mu: none are kept any more
	looked time.Time          // guarded by mu: when owners that are gone were looked for
}

type owner struct {
	had   time.Duration // on slots, and what it missed before it came
	held  int           // slots
	queue []chan struct{}
	last  time.Time // when it gave a slot back
	slow  time.Time // when it gave one back that it had kept for long
	rests time.Time // until when it takes none
}

func newSlots(n int) *slots {
	s := &slots{all: n, free: n, owners: map[uint64]*owner{}, kept: map[*keptSlot]bool{},
		began: time.Now()}
	s.worked.Store(-int64(recent))
	return s
}

// work begins what works without guests.
func (s *slots) work() { s.working.Add(1) }

// rest ends it.
func (s *slots) rest() {
	s.worked.Store(int64(time.Since(s.began)))
	s.working.Add(-1)
}

// claimed reports whether a holder of a slot for a turn is to give it up: to one that waits, or to
// take another one if there is, for what works without guests now.
func (s *slots) claimed() bool { return s.waiting.Load() > 0 || s.working.Load() > 0 }

// keeps reports whether slow owners leave one slot free.
func (s *slots) keeps(now time.Time) bool {
	return s.all > 1 && (s.working.Load() > 0 ||
		now.Sub(s.began)-time.Duration(s.worked.Load()) < recent)
}

// take waits for a slot. The error is the context's.
func (s *slots) take(ctx context.Context, key uint64, now time.Time) error {
	s.mu.Lock()
	o := s.owner(key, now)
	if rest := o.rests.Sub(now); rest > 0 {
		s.mu.Unlock()
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return fmt.Errorf("wait for a plugin slot: %w", context.Cause(ctx))
		}
		s.mu.Lock()
		now = time.Now()
		o = s.owner(key, now)
	}
	// The usual case, without a look at all owners: one slot is always a part.
	if s.waiting.Load() == 0 && s.free > 0 && (o.held == 0 || len(s.owners) == 1) &&
		s.mayHave(o, now) {
		s.grantTo(o)
		s.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	o.queue = append(o.queue, granted)
	s.waiting.Add(1)
	s.takeKept(now)
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
		return fmt.Errorf("wait for a plugin slot: %w", context.Cause(ctx))
	}
}

// owner returns an owner, or makes one. It is called with mu held.
func (s *slots) owner(key uint64, now time.Time) *owner {
	o := s.owners[key]
	if o == nil {
		s.part(now) // forgets
		o = &owner{had: s.served}
		s.owners[key] = o
		s.several.Store(s.ending || len(s.owners) > 1)
	}
	return o
}

// waste says that an owner which has held a slot for a time used up the budget of a call with it.
func (s *slots) waste(key uint64, held time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[key]
	if o.rests.Before(now) {
		o.rests = now
	}
	o.rests = o.rests.Add(restTimes * held)
	if most := now.Add(restMost); o.rests.After(most) {
		o.rests = most
	}
}

// leaveQueue gives up waiting, or gives back what was granted in the same moment.
func (s *slots) leaveQueue(key uint64, granted chan struct{}) {
	s.mu.Lock()
	o := s.owners[key]
	at := slices.Index(o.queue, granted)
	if at >= 0 {
		o.queue = slices.Delete(o.queue, at, at+1)
		s.waiting.Add(-1)
	}
	s.mu.Unlock()
	if at < 0 {
		s.give(key, 0, time.Now())
	}
}

// give returns a slot that an owner held for a time until now.
func (s *slots) give(key uint64, held time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked(key, held, held, now)
}

// giveLocked is give for an owner that had a slot for a time, the last part of it at a stretch. It
// is called with mu held.
func (s *slots) giveLocked(key uint64, had, last time.Duration, now time.Time) {
	o := s.owners[key]
	o.had, o.held, o.last = o.had+had, o.held-1, now
	if last >= turn {
		o.slow = now
	}
	s.free++
	if s.waiting.Load() > 0 {
		s.grant(now)
	}
}

// forget forgets an owner that will not come back: nobody has to share with it any more.
func (s *slots) forget(key uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owners[key]; o != nil && o.held == 0 && len(o.queue) == 0 {
		s.remove(key)
		s.grant(time.Now())
	}
}

// remove is called with mu held.
func (s *slots) remove(key uint64) {
	delete(s.owners, key)
	s.several.Store(s.ending || len(s.owners) > 1)
}

// grant hands free slots to those who wait. While there is one who may not have one yet, another
// slot is held, and all are looked at again when that is given back. It is called with mu held.
func (s *slots) grant(now time.Time) {
	for s.free > 0 {
		part := s.part(now)
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
		s.waiting.Add(-1) // before the holder goes on, which looks at it
		close(granted)
	}
}

// mayHave says whether a free slot may go to an owner, or is left for what works without guests.
func (s *slots) mayHave(o *owner, now time.Time) bool {
	return s.free > 1 || now.Sub(o.slow) >= recent || !s.keeps(now)
}

func (s *slots) grantTo(o *owner) {
	s.served = max(s.served, o.had)
	o.held++
	s.free--
}

// part returns how many slots one owner may hold, and forgets owners that are gone: without debts,
// or when nobody is there to whom they matter.
func (s *slots) part(now time.Time) int {
	sharing := 0
	for key, o := range s.owners {
		switch {
		case o.held > 0 || len(o.queue) > 0 || now.Sub(o.last) < recent:
			sharing++
		case now.Before(o.rests):
		case o.had <= s.served || s.free == s.all:
			s.remove(key)
		}
	}
	return max(1, (s.all+sharing-1)/max(1, sharing))
}

// asker is who asks for an instance: an owner of slots, and of spare instances.
type asker struct{ key, spares uint64 }

type ownerKey struct{}

// WithOwner returns a context for NewFilter and NewAggregate: slots for guest calls are shared
// fairly among owners, so whoever asks for much should be one. Instances are used again by the
// same owner alone. Without it all share one owner.
func WithOwner(ctx context.Context, key uint64) context.Context {
	return context.WithValue(ctx, ownerKey{}, asker{key, key})
}

// WithQuery is WithOwner for an owner that is one query and does not come back, while others do
// that may use its instances: those with the same key of spares.
func WithQuery(ctx context.Context, key, spares uint64) context.Context {
	return context.WithValue(ctx, ownerKey{}, asker{key, spares})
}

func askerOf(ctx context.Context) asker {
	o, _ := ctx.Value(ownerKey{}).(asker)
	return o
}
