package wasmhost

import (
	"context"
	"sync/atomic"
	"time"
)

// To take a slot and to give it back touches what all processors touch, and costs as much as the
// call of a guest with a thousand rows; so do two looks at the clock. So an owner who is alone
// keeps its slots between calls. A slot that is kept is as good as free: whoever finds none takes
// it away.

// States of a kept slot. From kept, whoever changes it first has it.
const (
	slotAbsent = iota // there is none, or one that is not kept: its user takes and gives it
	slotUsed          // by its user, who is in a call
	slotKept          // nobody is in a call
)

// keptSlot is the slot of one who uses it again and again. Its zero value is ready. Until it is
// absent, slots.life is held for reading.
type keptSlot struct {
	state atomic.Int32
	owner uint64
	had   time.Duration // that the owner is to be told of; the user's, or of who takes it away
	known bool          // it is among the kept ones of the slots; likewise
}

// enter takes a slot, the kept one if it is still there.
func (s *slots) enter(ctx context.Context, k *keptSlot) (kept bool, err error) {
	if k.state.CompareAndSwap(slotKept, slotUsed) {
		return true, nil
	}
	s.life.RLock()
	if err := s.take(ctx, k.owner, time.Now()); err != nil {
		s.life.RUnlock()
		return false, err
	}
	k.state.Store(slotUsed)
	return false, nil
}

// leave keeps a slot that was held for a time, or gives it back where somebody else may want it.
// The owner had it for some more time before that nobody told of.
func (s *slots) leave(k *keptSlot, held, had time.Duration, now time.Time) {
	k.had += had
	if held >= turn || s.wanted() {
		s.drop(k, now, held)
		return
	}
	if !k.known {
		s.mu.Lock()
		s.kept[k], k.known = true, true
		s.mu.Unlock()
	}
	s.keep(k)
}

// wanted reports whether somebody else may want a slot.
func (s *slots) wanted() bool { return s.waiting.Load() > 0 || s.several.Load() }

// keep keeps a slot that is known, unless it is wanted now.
func (s *slots) keep(k *keptSlot) {
	k.state.Store(slotKept)
	// Who waits has looked for kept slots before, or is seen here.
	if s.wanted() {
		s.letGo(k)
	}
}

// keepNone gives all slots back that are kept, and keeps none from now on.
func (s *slots) keepNone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	s.several.Store(true)
	s.takeKept(time.Now())
}

// letGo gives a slot back that is kept, if it is.
func (s *slots) letGo(k *keptSlot) {
	if k.state.CompareAndSwap(slotKept, slotUsed) {
		s.drop(k, time.Now(), 0)
	}
}

// drop gives a slot back that is used. The last use took a time.
func (s *slots) drop(k *keptSlot, now time.Time, last time.Duration) {
	defer s.life.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetKept(k)
	had := k.had
	k.had = 0
	s.giveLocked(k.owner, had, last, now)
	if s.several.Load() && now.Sub(s.looked) >= recent {
		s.looked = now
		s.part(now) // forgets who is gone, and who is left may be alone
	}
}

// lost says that who used a slot has none any more, but holds life still.
func (s *slots) lost(k *keptSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetKept(k)
}

// forgetKept is called with mu held.
func (s *slots) forgetKept(k *keptSlot) {
	delete(s.kept, k)
	k.known = false
	k.state.Store(slotAbsent)
}

// takeKept makes all slots free that are kept. It is called with mu held.
func (s *slots) takeKept(now time.Time) {
	for k := range s.kept {
		if !k.state.CompareAndSwap(slotKept, slotUsed) {
			continue
		}
		s.forgetKept(k)
		o := s.owners[k.owner]
		o.had, o.held, o.last = o.had+k.had, o.held-1, now
		k.had = 0
		s.free++
		s.life.RUnlock()
	}
}
