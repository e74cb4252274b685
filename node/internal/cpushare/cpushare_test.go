package cpushare

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

const step = 100 * time.Microsecond

// work is a goroutine's work at a query in steps, until told to end. It returns the number of
// steps.
func work(
	t *testing.T, q *Task, end *atomic.Bool, running *atomic.Int32, most func(int32),
) int {
	s := q.Start()
	defer s.Stop()
	steps := 0
	for !end.Load() {
		n := running.Add(1)
		if q.long.Load() {
			most(n)
		}
		time.Sleep(step)
		running.Add(-1)
		steps++
		if err := s.Yield(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return steps
}

// checkIdle is called when nothing is in progress any more.
func checkIdle(t *testing.T, p *Scheduler) {
	t.Helper()
	if st := p.Stats(); st != (Stats{}) || len(p.running) > 0 || len(p.owners) > 0 {
		t.Errorf("%+v, %d hold, %d owners, when all have ended", st, len(p.running), len(p.owners))
	}
}

// Of two owners that ask for much each has about half of the processors, however many goroutines it
// has, and never more run than there are processors; one fewer while short queries come.
func TestLongQueriesShareProcessors(t *testing.T) {
	for _, processors := range []int{1, 2, 4} {
		synctest.Test(t, func(t *testing.T) {
			p := New(processors)
			var end atomic.Bool
			var running, most atomic.Int32
			see := func(n int32) { most.Store(max(most.Load(), n)) }
			var steps [2]int
			var mu sync.Mutex
			var all sync.WaitGroup
			for i, goroutines := range []int{12, 4} {
				for range goroutines {
					q := p.Begin(uint64(i))
					all.Go(func() {
						defer q.End()
						n := work(t, q, &end, &running, see)
						mu.Lock()
						defer mu.Unlock()
						steps[i] += n
					})
				}
			}
			time.Sleep(200 * time.Millisecond) // all are long
			most.Store(0)
			time.Sleep(time.Second)
			if got := most.Load(); got != int32(processors) {
				t.Errorf("%d ran at once on %d processors", got, processors)
			}
			short := p.Begin(2)
			time.Sleep(20 * time.Millisecond)
			most.Store(0)
			time.Sleep(200 * time.Millisecond)
			short.End()
			time.Sleep(recent / 2)
			if got, want := most.Load(), int32(max(1, processors-1)); got != want {
				t.Errorf("beside short queries %d ran at once on %d processors", got, processors)
			}
			time.Sleep(recent)
			end.Store(true)
			all.Wait()
			if least := steps[0] / 2; steps[1] < least || steps[0] < steps[1]/2 {
				t.Errorf("%d steps of one and %d of the other: not alike", steps[0], steps[1])
			}
			checkIdle(t, p)
		})
	}
}

// A short query waits for nothing, whatever long ones do.
func TestShortQueriesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(2)
		var end atomic.Bool
		var running atomic.Int32
		var all sync.WaitGroup
		for range 20 {
			q := p.BeginLong(1)
			all.Go(func() {
				defer q.End()
				work(t, q, &end, &running, func(int32) {})
			})
		}
		for range 50 {
			began := time.Now()
			q := p.Begin(2)
			s := q.Start()
			for range 10 {
				time.Sleep(step)
				if err := s.Yield(t.Context()); err != nil {
					t.Error(err)
				}
			}
			s.Stop()
			q.End()
			if took := time.Since(began); took != 10*step {
				t.Errorf("ten steps of a short query took %v", took)
			}
			time.Sleep(7 * time.Millisecond)
		}
		end.Store(true)
		all.Wait()
		checkIdle(t, p)
	})
}

// On a single processor long queries wait for short ones, and yet go on.
func TestASingleProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		q := p.BeginLong(1)
		s := q.Start()
		short := p.Begin(2)
		steps := 0
		for began := time.Now(); time.Since(began) < time.Second; steps++ {
			time.Sleep(step)
			if err := s.Yield(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if most := int(time.Second / step / 5); steps < 100 || steps > most {
			t.Errorf("%d steps in a second beside a short query, want 100 to %d", steps, most)
		}
		short.End()
		s.Stop()
		q.End()
		checkIdle(t, p)
	})
}

// A worker that waits for a client or a lock loses its processor, and waits for one afterwards.
func TestIdleWorkersLoseProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		pause := func(s *Worker) {
			if err := s.Yield(t.Context()); err != nil {
				t.Error(err)
			}
		}
		a, b := p.BeginLong(1), p.BeginLong(1)
		sa, sb := a.Start(), b.Start()
		pause(&sa) // and does not come back
		began := time.Now()
		pause(&sb)
		if took := time.Since(began); took > lease+pollEvery {
			t.Errorf("a processor was lost after %v", took)
		}
		var back atomic.Bool
		go func() {
			pause(&sa)
			back.Store(true)
		}()
		synctest.Wait()
		if back.Load() {
			t.Error("two have the one processor")
		}
		time.Sleep(timeSlice)
		pause(&sb)
		synctest.Wait()
		if !back.Load() {
			t.Error("one that waits is not let in after a time slice")
		}
		sa.Stop()
		sb.Stop()
		a.End()
		b.End()
		checkIdle(t, p)
	})
}

// Queries of a seed end at any moment, by their contexts or by themselves, and leave nothing.
func TestQueriesThatEnd(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 1))
		gone := errors.New("gone")
		p := New(1 + rng.IntN(3))
		var all sync.WaitGroup
		for range 300 {
			owner, goroutines, steps := uint64(rng.IntN(4)), 1+rng.IntN(3), rng.IntN(60)
			blocks, ends := rng.IntN(5) == 0, time.Duration(rng.IntN(30))*time.Millisecond
			ctx, cancel := context.WithCancelCause(t.Context())
			if rng.IntN(2) == 0 {
				time.AfterFunc(ends, func() { cancel(gone) })
			}
			all.Go(func() {
				defer cancel(nil)
				q := p.Begin(owner)
				defer q.End()
				var some sync.WaitGroup
				for range goroutines {
					some.Go(func() {
						s := q.Start()
						defer s.Stop()
						for i := range steps {
							time.Sleep(step)
							if blocks && i%20 == 0 {
								time.Sleep(2 * lease)
							}
							if err := s.Yield(ctx); err != nil {
								if !errors.Is(err, gone) {
									t.Error(err)
								}
								return
							}
						}
					})
				}
				some.Wait()
			})
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		}
		all.Wait()
		checkIdle(t, p)
	})
}

// What is no task has no time slices.
func TestNoQuery(t *testing.T) {
	s := Of(t.Context()).Start()
	if err := s.Yield(t.Context()); err != nil {
		t.Error(err)
	}
	s.Stop()
	p := New(1)
	type key struct{}
	ctx, q := p.Enter(context.WithValue(t.Context(), key{}, 7), 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if Of(ctx) != q || ctx.Value(key{}) != 7 {
		t.Error("a query is lost in its context, or what the context had before")
	}
	q.End()
	checkIdle(t, p)
}

// TestAWaitEndsAfterItsProcessorWasLost: a processor is granted, lost as its goroutine did not run,
// and the owner forgotten, before the goroutine sees that its context has ended.
func TestAWaitEndsAfterItsProcessorWasLost(t *testing.T) {
	p := New(2)
	q := p.BeginLong(1)
	s := q.Start()
	s.granted = make(chan struct{})
	p.mu.Lock()
	o := p.release(&s, 0, p.now())
	o.queue = append(o.queue, &s)
	p.waiting.Add(1)
	p.grant(p.now(), pollEvery)
	if !s.running {
		t.Error("no processor was granted")
	}
	p.expire(&s)
	p.forget()
	p.mu.Unlock()
	p.leaveQueue(&s)
	s.Stop()
	q.End()
	checkIdle(t, p)
}
