package wasmhost

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func (q *queue) enter(k *cachedPermit) {
	q.t.Helper()
	if _, err := q.permits.enter(q.t.Context(), k); err != nil {
		q.t.Fatal(err)
	}
}

func (q *queue) leave(k *cachedPermit, held time.Duration) {
	q.permits.leave(k, held, held, time.Now())
}

// free is how many permits are free or kept, which is as good.
func (q *queue) free() int {
	q.permits.mu.Lock()
	defer q.permits.mu.Unlock()
	q.permits.reclaimCached(time.Now())
	return q.permits.free
}

// An owner that is alone holds its permit, and another caller gets it at once.
func TestPermitIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newCallPermits(1, NewNativeWork()), make(chan uint64, 100)}
		k := &cachedPermit{owner: 7}
		for range 3 {
			q.enter(k)
			q.leave(k, time.Microsecond)
			if k.state.Load() != permitCached || q.permits.free != 0 {
				t.Fatalf("state %d, %d permits free", k.state.Load(), q.permits.free)
			}
		}
		q.wait(t.Context(), 1)
		q.next(1)
		had := q.permits.owners[7].had
		if k.state.Load() != permitAbsent || had != 3*time.Microsecond {
			t.Fatalf("state %d, the owner had %v", k.state.Load(), had)
		}
		q.give(1, 0)
		q.enter(k) // beside an owner who was there just now
		q.leave(k, time.Microsecond)
		if k.state.Load() != permitAbsent || q.permits.free != 1 {
			t.Fatalf("state %d, %d permits free", k.state.Load(), q.permits.free)
		}
		time.Sleep(recent)
		q.enter(k)
		q.leave(k, 0) // sees that the other is gone
		q.enter(k)
		q.leave(k, 0)
		if k.state.Load() != permitCached {
			t.Fatalf("state %d of an owner who is alone again", k.state.Load())
		}
		q.enter(k)
		q.leave(k, timeSlice)
		if k.state.Load() != permitAbsent || q.permits.free != 1 {
			t.Fatalf("state %d after a slow call, %d permits free", k.state.Load(), q.permits.free)
		}
	})
}

// Who waits while a permit is used gets it when the use ends, and an instance that ends gives back
// what it keeps.
func TestHeldPermitIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newCallPermits(1, NewNativeWork()), make(chan uint64, 100)}
		k := &cachedPermit{owner: 7}
		q.enter(k)
		q.leave(k, 0)
		q.enter(k)
		q.wait(t.Context(), 7)
		q.noOwner()
		q.leave(k, 0)
		q.next(7)
		q.give(7, 0)
		q.enter(k)
		q.leave(k, 0)
		q.permits.releaseCached(k)
		q.permits.releaseCached(k)
		if len(q.permits.cached) != 0 {
			t.Errorf("%d permits are kept", len(q.permits.cached))
		}
		q.empty()
	})
}

// However owners come and go, no more of them are in calls than there are permits, all get their
// turn, and in the end all permits are free.
func TestHeldPermitsAddUp(t *testing.T) {
	const all, owners, users, rounds = 3, 3, 8, 300
	q := &queue{t, newCallPermits(all, NewNativeWork()), nil}
	var inCalls atomic.Int32
	var wg sync.WaitGroup
	for user := range users {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(user), 1))
			k := &cachedPermit{owner: uint64(user % owners)}
			for range rounds {
				if _, err := q.permits.enter(t.Context(), k); err != nil {
					t.Error(err)
					return
				}
				if n := inCalls.Add(1); n > all {
					t.Errorf("%d are in calls, of %d permits", n, all)
				}
				inCalls.Add(-1)
				q.leave(k, time.Duration(rng.IntN(2))*timeSlice*time.Duration(rng.IntN(2)))
				if rng.IntN(20) == 0 {
					q.permits.releaseCached(k)
				}
			}
			q.permits.releaseCached(k)
		})
	}
	wg.Wait()
	if n := q.free(); n != all || len(q.permits.cached) != 0 || q.permits.waiting.Load() != 0 {
		t.Errorf("%d of %d permits are free, %d kept, %d wait", n, all, len(q.permits.cached),
			q.permits.waiting.Load())
	}
	for key, o := range q.permits.owners {
		if o.held != 0 {
			t.Errorf("owner %d holds %d", key, o.held)
		}
	}
}

// A host that is closed does not wait for permits that are kept, and keeps none any more.
func TestCloseReclaimsHeldPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCallPermits(2, NewNativeWork())
		q := &queue{t, s, nil}
		kept, used := &cachedPermit{owner: 7}, &cachedPermit{owner: 7}
		q.enter(kept)
		q.enter(used)
		q.leave(kept, 0)
		s.dropCached()
		if n := kept.state.Load(); n != permitAbsent || s.life.TryLock() {
			t.Fatalf("state %d, but a guest is in a call", n)
		}
		q.leave(used, 0)
		if n := used.state.Load(); n != permitAbsent || s.free != 2 || !s.life.TryLock() {
			t.Fatalf("state %d, %d permits free, and a guest is in a call", n, s.free)
		}
	})
}

// Calls that are not timed are counted as if they were.
func TestUntimedCallsCount(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(nil))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	untimed := 0
	b := values(1, 2, 3)
	for range 10 * reportEvery {
		if err := a.Add(t.Context(), b, nil, 1); err != nil {
			t.Fatal(err)
		}
		if !a.guest.timed {
			untimed++
		} else if a.guest.untimed != 0 {
			t.Fatalf("%d are still to be counted", a.guest.untimed)
		}
	}
	want := 10 * reportEvery * maxUntimed / (maxUntimed + 1)
	if untimed < want/2 || untimed > want {
		t.Errorf("%d of %d calls were not timed, want up to %d", untimed, 10*reportEvery, want)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Add(t.Context(), b, nil, 1); err != ErrClosed {
		t.Errorf("added to what is closed: %v", err)
	}
}

// An operation that was taken for brief and is not, is charged by its fuel; brief ones before it
// are charged by the next brief one that is timed.
func TestHeldUntimed(t *testing.T) {
	now := time.Now()
	f := func(g *guest, held, took time.Duration, untimed int) {
		t.Helper()
		gotHeld, gotTook := g.permitTime(now)
		if gotHeld != held || gotTook != took || g.untimed != untimed {
			t.Errorf("%v, %v, %d untimed; want %v, %v, %d", gotHeld, gotTook, g.untimed, held,
				took, untimed)
		}
	}
	since := now.Add(-time.Microsecond)
	f(&guest{scale: 1, wasBrief: true, untimed: 2}, 0, 0, 3)
	f(&guest{scale: 1, wasBrief: true, timed: true, since: since, untimed: 7}, time.Microsecond,
		8*time.Microsecond, 0)
	f(&guest{scale: 1, timed: true, since: since, untimed: 7}, time.Microsecond,
		time.Microsecond, 0)
	f(&guest{scale: 1, spent: 3_000_000, untimed: 7}, time.Millisecond, time.Millisecond, 0)
	f(&guest{scale: goFuelScale, spent: 3_000_000 * goFuelScale}, time.Millisecond,
		time.Millisecond, 0)
}
