package wasmhost

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// queue lets owners wait for a permit one after another and returns where it notes who got one.
type queue struct {
	t       *testing.T
	permits *callPermits
	got     chan uint64
}

func (q *queue) wait(ctx context.Context, owners ...uint64) {
	for _, owner := range owners {
		go func() {
			if q.permits.acquire(ctx, owner, time.Now()) == nil {
				q.got <- owner
			}
		}()
		synctest.Wait()
	}
}

func (q *queue) next(want uint64) {
	q.t.Helper()
	synctest.Wait()
	select {
	case got := <-q.got:
		if got != want {
			q.t.Fatalf("owner %d has the permit, want %d", got, want)
		}
	default:
		q.t.Fatalf("no owner has the permit, want %d", want)
	}
}

func (q *queue) give(owner uint64, held time.Duration) {
	q.permits.release(owner, held, time.Now())
}

func (q *queue) noOwner() {
	q.t.Helper()
	synctest.Wait()
	select {
	case got := <-q.got:
		q.t.Fatalf("owner %d has a permit that is not free", got)
	default:
	}
}

// An owner with many waiters and long calls gets no more time than one that waits alone.
func TestPermitsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newCallPermits(1, NewNativeWork()), make(chan uint64, 100)}
		q.wait(t.Context(), 7)
		q.next(7)
		q.wait(t.Context(), 7, 7, 7, 7, 7, 7, 1)
		q.noOwner()
		q.give(7, 5*time.Millisecond)
		q.next(1) // who waits since last, and had nothing yet
		for range 4 {
			q.wait(t.Context(), 1)
			q.give(1, time.Millisecond)
			q.next(1)
		}
		q.wait(t.Context(), 1)
		q.give(1, 2*time.Millisecond) // six by now, against five
		q.next(7)
		q.give(7, 0)
		q.next(7)
		q.give(7, 2*time.Millisecond)
		q.next(1)
	})
}

// Leaving and coming back does not wipe out what an owner had, as long as others wait. An owner
// that is new begins where the others are and not before.
func TestPermitsRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newCallPermits(1, NewNativeWork()), make(chan uint64, 100)}
		q.wait(t.Context(), 7)
		q.next(7)
		q.wait(t.Context(), 1)
		q.give(7, 10*time.Millisecond)
		q.next(1)
		q.wait(t.Context(), 7, 1)
		q.give(1, time.Millisecond)
		q.next(1)
		q.wait(t.Context(), 2, 1)
		q.give(1, 20*time.Millisecond)
		q.next(2) // began at 1 ms
		q.give(2, time.Hour)
		q.next(7)
		q.give(7, 0)
		q.next(1)
		q.give(1, 0)
		q.empty()
	})
}

// A waiter that stops leaves no trace, also when the permit comes in the same moment.
func TestPermitsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newCallPermits(2, NewNativeWork()), make(chan uint64, 100)}
		q.wait(t.Context(), 1, 1)
		q.next(1)
		q.next(1)
		ctx, cancel := context.WithCancelCause(t.Context())
		q.wait(ctx, 2, 3)
		q.wait(t.Context(), 4)
		cancel(errors.New("gone"))
		q.noOwner()
		q.give(1, 0)
		q.next(4)
		q.give(1, 0)
		q.give(4, 0)
		err := q.permits.acquire(ctx, 5, time.Now()) // a free permit needs no waiting
		if err != nil {
			t.Fatal(err)
		}
		q.give(5, 0)

		time.Sleep(recent)
		q.wait(t.Context(), 1, 1)
		q.next(1)
		q.next(1)
		granted := make(chan struct{})
		o := q.permits.owners[1]
		o.queue = append(o.queue, granted)
		q.permits.waiting.Add(1)
		q.give(1, 0) // grants
		<-granted
		q.permits.leaveQueue(1, granted) // too late
		q.give(1, 0)
		q.empty()
	})
}

// empty wants no permit held and, once no owner is recent, nothing remembered.
func (q *queue) empty() {
	q.t.Helper()
	time.Sleep(recent)
	q.wait(q.t.Context(), 99)
	q.next(99)
	q.give(99, 0)
	if len(q.permits.owners) != 1 || q.permits.waiting.Load() != 0 ||
		q.permits.free != q.permits.total {
		q.t.Errorf("left behind: %+v", q.permits.owners)
	}
}

// An owner with many waiters holds all permits as long as it is alone, and its part when there is
// another, also while that one gathers its next batch.
func TestPermitsHaveShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newCallPermits(4, NewNativeWork()), make(chan uint64, 100)}
		q.wait(t.Context(), 7, 7, 7, 7, 7, 7, 7, 7)
		for range 4 {
			q.next(7)
		}
		q.wait(t.Context(), 1)
		q.give(7, 0)
		q.next(1)
		q.give(7, 0) // two are its part
		q.noOwner()
		q.give(1, 0)
		q.noOwner()
		q.wait(t.Context(), 1, 1)
		q.next(1)
		q.next(1)
		q.wait(t.Context(), 2) // one of three: two of four, rounded up
		q.noOwner()
		q.give(7, time.Millisecond)
		q.next(2)
		q.give(2, 0)
		q.give(1, 0)
		q.give(1, 0)
		q.next(7)
		q.noOwner()
		time.Sleep(recent)
		q.give(7, 0)
		for range 3 {
			q.next(7)
		}
		q.noOwner()
		for range 4 {
			q.give(7, 0)
		}
		q.empty()
	})
}

// A forgotten owner has no share any more, and waiters get it at once. One that holds a
// permit or waits for one is not forgotten.
func TestPermitsForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newCallPermits(2, NewNativeWork()), make(chan uint64, 100)}
		q.wait(t.Context(), 1)
		q.next(1)
		q.permits.forget(1)
		q.wait(t.Context(), 7, 7)
		q.next(7)
		q.give(1, 0)
		q.noOwner()
		q.permits.forget(7)
		q.permits.forget(1)
		q.next(7)
		q.give(7, 0)
		q.give(7, 0)
		q.permits.forget(99) // never was
		q.empty()
	})
}

// Beside work without guests, and shortly after it, owners with long calls leave one permit free,
// which others may have. With nothing else to do, all permits are theirs, as is the only one.
func TestPermitsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newCallPermits(3, NewNativeWork()), make(chan uint64, 100)}
		slow := func(wait int) {
			t.Helper()
			q.wait(t.Context(), 7)
			q.next(7)
			q.give(7, timeSlice)
			for range wait {
				q.wait(t.Context(), 7)
			}
		}
		slow(3)
		for range 3 {
			q.next(7)
		}
		q.permits.nativeWork.Begin()
		q.permits.nativeWork.Begin()
		q.wait(t.Context(), 7)
		q.give(7, timeSlice)
		q.noOwner()
		q.permits.nativeWork.End()
		q.wait(t.Context(), 1) // as usual
		q.next(1)
		q.give(1, 0)
		q.give(7, timeSlice)
		q.next(7)
		q.permits.nativeWork.End() // and expected back
		q.wait(t.Context(), 7)
		q.noOwner()
		time.Sleep(recent)
		q.give(7, timeSlice)
		q.next(7)
		q.wait(t.Context(), 7)
		q.next(7)
		for range 3 {
			q.give(7, 0)
		}
		q.empty()

		q.permits = newCallPermits(1, NewNativeWork())
		q.permits.nativeWork.Begin()
		slow(1)
		q.next(7)
	})
}

// An owner whose calls use up their budgets has a quarter of the time, alone too, and never rests
// for long.
func TestWasteRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{t, newCallPermits(2, NewNativeWork()), make(chan uint64, 100)}
		wasteFor := func(held time.Duration) {
			time.Sleep(held)
			q.permits.penalize(7, held, time.Now())
			q.give(7, held)
		}
		q.wait(t.Context(), 7)
		q.next(7)
		wasteFor(time.Millisecond)
		q.wait(t.Context(), 7, 1)
		q.next(1)
		time.Sleep(penaltyFactor*time.Millisecond - 1)
		q.noOwner()
		time.Sleep(time.Nanosecond)
		q.next(7)

		wasteFor(time.Hour)
		q.wait(t.Context(), 7)
		time.Sleep(maxPenalty - 1)
		q.noOwner()
		time.Sleep(time.Nanosecond)
		q.next(7)

		wasteFor(time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		q.wait(ctx, 7)
		cancel()
		time.Sleep(time.Hour)
		q.noOwner()
		if q.give(1, 0); q.permits.free != 2 {
			t.Errorf("%d permits are free", q.permits.free)
		}
	})
}

// enteredGuest is an instance that has the only permit of its host, for owner 7.
func enteredGuest(t *testing.T, ctx context.Context) (*Host, *guest) {
	t.Helper()
	h := newTestHost(t, Options{MaxCalls: 1})
	m := mustLoad(t, h, good(nil))
	a, err := m.NewAggregateFor(ctx, OwnerOf(7), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), m.Close() })
	if err := a.guest.enter(ctx); err != nil {
		t.Fatal(err)
	}
	return h, a.guest
}

// otherWaits returns when another owner waits for the permit of a guest whose time slice is over.
// The other does something while it has the permit, and gives it back unless it keeps it.
func otherWaits(t *testing.T, h *Host, g *guest, keep bool, then func()) {
	go func() {
		if h.permits.acquire(t.Context(), 1, time.Now()) != nil {
			return
		}
		then()
		if !keep {
			h.permits.release(1, 0, time.Now())
		}
	}()
	for h.permits.waiting.Load() == 0 {
		runtime.Gosched()
	}
	g.since = g.since.Add(-timeSlice)
}

// A guest with much to do lets others in between its calls, and reports when none is left.
func TestPause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h, g := enteredGuest(t, ctx)
	had := false // guarded by the permit
	otherWaits(t, h, g, false, func() { had = true })
	if err := g.pause(ctx); err != nil || !had {
		t.Errorf("%v, the other had the permit: %v", err, had)
	}
	if err := g.leave(nil); err != nil || h.permits.free != 1 {
		t.Errorf("%v, %d permits free", err, h.permits.free)
	}

	// While the other has the permit, the guest's query ends: it has no permit to give back.
	if err := g.enter(ctx); err != nil {
		t.Fatal(err)
	}
	otherWaits(t, h, g, true, cancel)
	if err := g.leave(g.pause(ctx)); !errors.Is(err, context.Canceled) || h.permits.free != 0 {
		t.Errorf("%v, %d permits free", err, h.permits.free)
	}
	h.permits.release(1, 0, time.Now())
}

// The search for the record that a guest failed at lets others in between its calls, too; the
// instance that repeats the call has the permit of the other.
func TestFailingRecordPauses(t *testing.T) {
	h, g := enteredGuest(t, t.Context())
	had := 0 // guarded by the permit
	other := func() { otherWaits(t, h, g, false, func() { had++ }) }
	other()
	calls := 0
	err := g.fail(Trap, exportAdd, "for once")
	g.findFailingRecord(t.Context(), err, values(1, 2), &batch{to: 2},
		func(fresh *guest) rowCall {
			return func(int) error {
				if calls++; had != 2*calls-1 {
					t.Errorf("call %d: the other had the permit %d times", calls, had)
				}
				other()
				if err := fresh.pause(t.Context()); err != nil || had != 2*calls {
					t.Errorf("call %d: %v, the other had the permit %d times", calls, err, had)
				}
				if calls < 2 {
					other()
				}
				return nil
			}
		})
	if err := g.leave(nil); err != nil || calls != 2 || h.permits.free != 1 {
		t.Errorf("%v, %d calls, %d permits free", err, calls, h.permits.free)
	}
}

// Hosts side by side have the permits of one.
func TestShareWith(t *testing.T) {
	h := newTestHost(t, Options{MaxCalls: 1})
	beside := newTestHost(t, Options{MaxCalls: 9, ShareWith: h})
	m, lent := mustLoad(t, h, good(nil)), mustLoad(t, beside, good(nil))
	defer m.Close()
	defer lent.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.guest.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	other, err := lent.NewAggregate(ended, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a second call beside the one that there is space for: %v", err)
		_ = other.Close()
	}
	_ = a.guest.leave(nil)
	checkGood(t, lent)
}
