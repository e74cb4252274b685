package wasmhost

import (
	"context"
	"sync/atomic"
	"time"
)

// To take a slot and to give it back touches what all processors touch, and costs as much as the
// call of a guest with a thousand rows. So an owner who is alone keeps its slots between calls. A
// slot that is kept is as good as free: whoever finds none takes it away.

// States of a kept slot. From kept, whoever changes it first has it.
const (
	slotAbsent = iota // there is none, or one that is not kept: its user takes and gives it
	slotUsed          // by its user, who is in a call
	slotKept          // nobody is in a call
)

// keptSlot is the slot of one who uses it again and again. Its zero value is ready.
type keptSlot struct {
	state atomic.Int32
	owner uint64
	had   time.Duration // that the owner is to be told of; the user's, or of who takes it away
	known bool          // it is among the kept ones of the slots; likewise
}

// enter takes a slot, the kept one if it is still there.
func (s *slots) enter(ctx context.Context, k *keptSlot) error {
	if k.state.CompareAndSwap(slotKept, slotUsed) {
		return nil
	}
	if err := s.take(ctx, k.owner, time.Now()); err != nil {
		return err
	}
	k.state.Store(slotUsed)
	return nil
}

// leave keeps a slot that was used for a time, or gives it back where somebody else may want it.
func (s *slots) leave(k *keptSlot, held time.Duration, now time.Time) {
	k.had += held
	if held >= turn || s.several.Load() || s.waiting.Load() > 0 {
		s.drop(k, now, held)
		return
	}
	if !k.known {
		s.mu.Lock()
		s.kept[k], k.known = true, true
		s.mu.Unlock()
	}
	k.state.Store(slotKept)
	// Who waits has looked for kept slots before, or is seen here.
	if s.waiting.Load() > 0 || s.several.Load() {
		s.letGo(k)
	}
}

// letGo gives a slot back that is kept, if it is.
func (s *slots) letGo(k *keptSlot) {
	if k.state.CompareAndSwap(slotKept, slotUsed) {
		s.drop(k, time.Now(), 0)
	}
}

// drop gives a slot back that is used. The last use took a time.
func (s *slots) drop(k *keptSlot, now time.Time, last time.Duration) {
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

// lost says that who used a slot has none any more.
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
	}
}
