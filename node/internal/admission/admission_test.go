package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func take(t *testing.T, p *Controller, of uint64) *Permit {
	t.Helper()
	permit := new(Permit)
	err := p.Acquire(t.Context(), of, permit)
	if err != nil {
		t.Fatalf("tenant %d: %v, %+v", of, err, p.Stats())
	}
	return permit
}

// One tenant has two thirds of the permits and of the queue at most; another finds space in what is
// left, and goes first when a permit becomes free.
func TestOneTenantLeavesSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Permits: 8, MaxQueue: 9, MaxWait: time.Second})
		var held []*Permit
		for range 6 {
			held = append(held, take(t, p, 1))
		}
		var waits sync.WaitGroup
		for range 6 {
			waits.Go(func() {
				permit := new(Permit)
				err := p.Acquire(t.Context(), 1, permit)
				if err != nil {
					t.Error(err)
					return
				}
				permit.Release()
			})
		}
		synctest.Wait()
		if st := p.Stats(); st != (Stats{Held: 6, Waiting: 6}) {
			t.Errorf("%+v, want 6 held and 6 waiting", st)
		}
		if err := p.Acquire(t.Context(), 1, new(Permit)); !errors.Is(err, ErrFull) {
			t.Errorf("the queue is full for one tenant: %v", err)
		}
		other := []*Permit{take(t, p, 2), take(t, p, 2)} // 8 are held
		came := make(chan *Permit)
		go func() { came <- take(t, p, 3) }()
		synctest.Wait()
		held[0].Release()
		third := <-came // and not one of those who came before
		if st := p.Stats(); st.Held != 8 || st.Waiting != 6 {
			t.Errorf("%+v, want 8 held and 6 waiting", st)
		}
		for _, permit := range append(append(held[1:], other...), third) {
			permit.Release()
		}
		waits.Wait()
		if st := p.Stats(); st != (Stats{Refused: 1}) || busyTenants(p) != 0 {
			t.Errorf("%+v, %d tenants", st, busyTenants(p))
		}
	})
}

// Who waits too long, or whose client has gone, leaves nothing behind.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Permits: 1, MaxQueue: 4, MaxWait: time.Second})
		permit := take(t, p, 1)
		if err := p.Acquire(t.Context(), 2, new(Permit)); !errors.Is(err, ErrTimeout) {
			t.Errorf("waited for a second: %v", err)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(gone) })
		if err := p.Acquire(ctx, 2, new(Permit)); !errors.Is(err, gone) {
			t.Errorf("gone: %v", err)
		}
		time.AfterFunc(time.Hour, permit.Release)
		patient, err := p.AcquireUnbounded(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		patient.Release()
		if err := p.Drain(t.Context()); err != nil || busyTenants(p) != 0 {
			t.Errorf("%v, %d tenants", err, busyTenants(p))
		}
		if err := p.Acquire(t.Context(), 1, new(Permit)); err == nil {
			t.Error("a permit is given after all were drained")
		}
	})
}

// One that comes to a queue which has stood for as long as one waits there waits for a part of it;
// when it has been empty, for the whole.
func TestAStandingQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Permits: 1, MaxQueue: 100, MaxWait: time.Second})
		permit := take(t, p, 1)
		late := func() (waited time.Duration) {
			began := time.Now()
			if err := p.Acquire(t.Context(), 2, new(Permit)); !errors.Is(err, ErrTimeout) {
				t.Errorf("no permit is free: %v", err)
			}
			return time.Since(began)
		}
		var all sync.WaitGroup
		for i := range 40 { // from number 10 on the queue has stood for a second
			time.Sleep(100 * time.Millisecond)
			all.Go(func() {
				want := time.Second
				if i >= 10 {
					want /= congestedDivisor
				}
				if waited := late(); waited != want {
					t.Errorf("number %d waited %v, want %v", i, waited, want)
				}
			})
		}
		all.Wait()
		if waited := late(); waited != time.Second {
			t.Errorf("the queue was empty, and yet one waited for %v only", waited)
		}
		permit.Release()
	})
}

// A permit that is paused is another's; when as many are paused as there are permits, the one that
// waits longest for its client is hung up on. Drain waits for those that are paused, too.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Permits: 2, MaxQueue: 4, MaxWait: time.Second})
		var hungUp []int
		var paused []*Permit
		for i := range 3 {
			permit := take(t, p, 1)
			permit.Pause(func() { hungUp = append(hungUp, i) })
			paused = append(paused, permit)
		}
		if len(hungUp) != 1 || hungUp[0] != 0 {
			t.Errorf("hung up on %v, want the first", hungUp)
		}
		if st := p.Stats(); st != (Stats{Paused: 3}) {
			t.Errorf("%+v, want 3 paused", st)
		}
		one, two := take(t, p, 2), take(t, p, 3)
		time.AfterFunc(time.Hour, one.Release)
		if err := paused[1].Resume(t.Context()); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		if err := paused[2].Resume(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("resumed without a permit: %v", err)
		}
		ended := make(chan error)
		go func() { ended <- p.Drain(t.Context()) }()
		for _, permit := range []*Permit{two, paused[1], paused[0], paused[2]} {
			synctest.Wait()
			select {
			case <-ended:
				t.Fatal("drained while permits are held")
			default:
			}
			permit.Release()
		}
		if err := <-ended; err != nil || busyTenants(p) != 0 {
			t.Errorf("%v, %d tenants", err, busyTenants(p))
		}
	})
}

// busyTenants returns how many tenants hold or wait, or all if too many others are kept.
func busyTenants(p *Controller) (busy int) {
	if len(p.tenants) > fewTenants {
		return len(p.tenants)
	}
	for _, t := range p.tenants {
		if t.held > 0 || len(t.queue) > 0 {
			busy++
		}
	}
	return busy
}

// Many tenants that take, pause, resume, wait and go never hold more than there is, and all is
// given back.
func TestPlacesAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const permits = 5
	p := New(Options{Permits: permits, MaxQueue: 7, MaxWait: time.Millisecond})
	var running, most, got atomic.Int64
	var all sync.WaitGroup
	for w := range uint64(16) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, w))
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(),
					time.Duration(rng.IntN(2000))*time.Microsecond)
				permit := new(Permit)
				err := p.Acquire(ctx, w%4, permit)
				if err == nil {
					got.Add(1)
					now := running.Add(1)
					for old := most.Load(); now > old && !most.CompareAndSwap(old, now); {
						old = most.Load()
					}
					holds := true
					if rng.IntN(3) == 0 {
						running.Add(-1)
						permit.Pause(cancel)
						if holds = permit.Resume(ctx) == nil; holds {
							running.Add(1)
						}
					}
					if holds {
						running.Add(-1)
					}
					permit.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if st := p.Stats(); st.Held+st.Waiting+st.Paused > 0 || busyTenants(p) != 0 ||
		p.free != permits {
		t.Errorf("%+v, %d tenants, %d free", st, busyTenants(p), p.free)
	}
	if got.Load() == 0 || most.Load() > permits {
		t.Errorf("%d permits were taken, %d at once", got.Load(), most.Load())
	}
}
