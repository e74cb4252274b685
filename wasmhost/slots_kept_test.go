package wasmhost

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func (q *queue) enter(k *keptSlot) {
	q.t.Helper()
	if err := q.slots.enter(q.t.Context(), k); err != nil {
		q.t.Fatal(err)
	}
}

// free is how many slots are free or kept, which is as good.
func (q *queue) free() int {
	q.slots.mu.Lock()
	defer q.slots.mu.Unlock()
	q.slots.takeKept(time.Now())
	return q.slots.free
}

// An owner who is alone keeps its slot, and whoever comes has it at once.
func TestSlotIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newSlots(1), make(chan uint64, 100)}
		k := &keptSlot{owner: 7}
		for range 3 {
			q.enter(k)
			q.slots.leave(k, time.Microsecond, time.Now())
			if k.state.Load() != slotKept || q.slots.free != 0 {
				t.Fatalf("state %d, %d slots free", k.state.Load(), q.slots.free)
			}
		}
		q.wait(t.Context(), 1)
		q.next(1)
		if had := q.slots.owners[7].had; k.state.Load() != slotAbsent || had != 3*time.Microsecond {
			t.Fatalf("state %d, the owner had %v", k.state.Load(), had)
		}
		q.give(1, 0)
		q.enter(k) // beside an owner who was there just now
		q.slots.leave(k, time.Microsecond, time.Now())
		if k.state.Load() != slotAbsent || q.slots.free != 1 {
			t.Fatalf("state %d, %d slots free", k.state.Load(), q.slots.free)
		}
		time.Sleep(recent)
		q.enter(k)
		q.slots.leave(k, 0, time.Now()) // sees that the other is gone
		q.enter(k)
		q.slots.leave(k, 0, time.Now())
		if k.state.Load() != slotKept {
			t.Fatalf("state %d of an owner who is alone again", k.state.Load())
		}
		q.enter(k)
		q.slots.leave(k, turn, time.Now())
		if k.state.Load() != slotAbsent || q.slots.free != 1 {
			t.Fatalf("state %d after a slow call, %d slots free", k.state.Load(), q.slots.free)
		}
	})
}

// Who waits while a slot is used gets it when the use ends, and an instance that ends gives back
// what it keeps.
func TestKeptSlotIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newSlots(1), make(chan uint64, 100)}
		k := &keptSlot{owner: 7}
		q.enter(k)
		q.slots.leave(k, 0, time.Now())
		q.enter(k)
		q.wait(t.Context(), 7)
		q.nobody()
		q.slots.leave(k, 0, time.Now())
		q.next(7)
		q.give(7, 0)
		q.enter(k)
		q.slots.leave(k, 0, time.Now())
		q.slots.letGo(k)
		q.slots.letGo(k)
		if len(q.slots.kept) != 0 {
			t.Errorf("%d slots are kept", len(q.slots.kept))
		}
		q.empty()
	})
}

// However owners come and go, no more of them are in calls than there are slots, all get their
// turn, and in the end all slots are free.
func TestKeptSlotsAddUp(t *testing.T) {
	const all, owners, users, rounds = 3, 3, 8, 300
	q := &queue{t, newSlots(all), nil}
	var inCalls atomic.Int32
	var wg sync.WaitGroup
	for user := range users {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(user), 1))
			k := &keptSlot{owner: uint64(user % owners)}
			for range rounds {
				if err := q.slots.enter(t.Context(), k); err != nil {
					t.Error(err)
					return
				}
				if n := inCalls.Add(1); n > all {
					t.Errorf("%d are in calls, of %d slots", n, all)
				}
				inCalls.Add(-1)
				q.slots.leave(k, time.Duration(rng.IntN(2))*turn*time.Duration(rng.IntN(2)),
					time.Now())
				if rng.IntN(20) == 0 {
					q.slots.letGo(k)
				}
			}
			q.slots.letGo(k)
		})
	}
	wg.Wait()
	if n := q.free(); n != all || len(q.slots.kept) != 0 || q.slots.waiting.Load() != 0 {
		t.Errorf("%d of %d slots are free, %d kept, %d wait", n, all, len(q.slots.kept),
			q.slots.waiting.Load())
	}
	for key, o := range q.slots.owners {
		if o.held != 0 {
			t.Errorf("owner %d holds %d", key, o.held)
		}
	}
}
