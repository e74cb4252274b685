// Package soak puts every kind of request to a node for as long as one likes, compares what it
// answers with what must be there, and says whether what the node takes levels off.
//
// It knows a node by its address, its process and its directory, and nothing of how it was started.
// Its main type is [Soak]. Its goroutines, one for each client and one that takes samples, end with
// [Soak.Run].
package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// Options of a soak. Addr, Pid and Dir must be given.
type Options struct {
	Addr  string        // where the node listens
	Pid   int           // its process
	Dir   string        // its data
	For   time.Duration // how long at least; 0: until Steps are done
	Steps int64         // what each client does at least
	Age   time.Duration // of the records of the loading tenants; default: an eighth of For
	Delay time.Duration // until their bytes may be removed; default: a quarter of the age
	Rate  int           // records a second of all loading tenants together; default 6,000
	Every time.Duration // between two samples; default 5 s
	Seed  uint64        // of all that is drawn
	Say   func(format string, args ...any)
}

func (o Options) withDefaults() Options {
	o.Age = cmp.Or(o.Age, max(o.For/8, 20*time.Second))
	o.Delay = cmp.Or(o.Delay, o.Age/4)
	o.Rate = cmp.Or(o.Rate, 6000)
	o.Every = cmp.Or(o.Every, 5*time.Second)
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return o
}

// Soak is one run.
//
// Goroutines: one for each worker, and one that takes samples; Run waits for all of them.
type Soak struct {
	opt     Options
	tenants []*tenant
	web     *http.Client
	sampler sampler
	workers []*worker
	stopped <-chan struct{} // closed when no new step is begun
	working sync.WaitGroup  // of workers that do steps
	telling sync.Mutex      // held while Options.Say is called
	checked atomic.Int64    // answers that were compared
	unsure  atomic.Int64    // counts that came too late to be compared
}

// act is something that a client does. A refusal to come again later is not held against the node.
type act func(ctx context.Context) error

// begin makes what the acts of a client have in common: those of a step, and that after the last,
// if there is one, which compares what only then can be compared.
type begin func(w *worker) (step, end act)

// worker is a client that does one step after another.
type worker struct {
	name  string
	pause time.Duration // between steps
	begin begin

	db      *client.Client
	random  *rand.Rand
	steps   atomic.Int64
	refused atomic.Int64
}

// New returns a soak that has not begun.
func New(opt Options) *Soak {
	s := &Soak{opt: opt.withDefaults(),
		web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
	s.sampler = sampler{addr: opt.Addr, pid: opt.Pid, dir: opt.Dir, web: s.web}
	for cid := range int32(loadTenants) {
		s.tenants = append(s.tenants, &tenant{cid: firstLoad + cid})
	}
	s.cast()
	return s
}

// cast decides who works.
func (s *Soak) cast() {
	add := func(name string, pause time.Duration, begin begin) {
		if s.hurry() {
			pause /= 10
		}
		s.workers = append(s.workers, &worker{name: name, pause: pause, begin: begin})
	}
	pause := time.Duration(loadTenants*loadBatch) * time.Second / time.Duration(s.opt.Rate)
	for _, t := range s.tenants {
		add(fmt.Sprintf("writer of tenant %d", t.cid), pause, s.load(t))
		add(fmt.Sprintf("counter of tenant %d", t.cid), time.Second, s.count(t))
		add(fmt.Sprintf("follower of tenant %d", t.cid), 0, s.follow(t))
		add(fmt.Sprintf("reader of tenant %d with a cursor", t.cid), 0, s.followByCursor(t))
	}
	add("model", 100*time.Millisecond, s.model)
	add("small questions", 20*time.Millisecond, s.asks(smallPaths))
	add("aggregates", 50*time.Millisecond, s.asks(aggregatePaths))
	add("long questions", time.Second, s.asks(longPaths))
	add("questions in frames", 100*time.Millisecond, s.frames)
	add("clients that stop reading", 0, s.stall(time.Second/5))
	add("clients that stop reading for long", 0,
		s.stall(min(max(s.opt.For/60, time.Second/2), 20*time.Second)))
	add("followers that come and go", 200*time.Millisecond, s.visit)
	add("uploads", 500*time.Millisecond, s.uploads)
	add("erases and purges", 2*time.Second, s.erases)
	add("housekeeping", time.Second, s.keep)
}

// hurry reports whether only the steps count.
func (s *Soak) hurry() bool { return s.opt.For == 0 }

// Run works until the time is over and every client has done its steps. An error is an answer that
// is wrong, or a failure that is no refusal to come again later.
func (s *Soak) Run(ctx context.Context) (r Report, err error) {
	r.Seed, r.Short = s.opt.Seed, s.hurry()
	if err := s.prepare(ctx); err != nil {
		return r, err
	}
	if r.Before, err = s.sampler.take(ctx); err != nil {
		return r, err
	}
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped, stop := context.WithCancel(work)
	defer stop()
	s.stopped = stopped.Done()
	var clients, samples sync.WaitGroup
	s.working.Add(len(s.workers))
	for i, w := range s.workers {
		w.random = rand.New(rand.NewPCG(s.opt.Seed, uint64(i)))
		clients.Go(func() {
			if err := s.work(work, w); err != nil {
				cancel(fmt.Errorf("%s, after %d steps: %w", w.name, w.steps.Load(), err))
			}
		})
	}
	watched, unwatch := context.WithCancel(work)
	samples.Go(func() {
		if err := s.watch(watched, &r); err != nil {
			cancel(err)
		}
	})
	s.await(work)
	unwatch()
	samples.Wait()
	stop()
	clients.Wait()
	s.web.CloseIdleConnections()
	s.tell(&r)
	if err := context.Cause(work); err != nil {
		return r, err
	}
	err = s.settle(ctx, &r)
	return r, err
}

// await waits until the time is over and every client has done its steps.
func (s *Soak) await(ctx context.Context) {
	began := time.Now()
	lazy := func(w *worker) bool { return w.steps.Load() < s.opt.Steps }
	for ctx.Err() == nil &&
		(time.Since(began) < s.opt.For || slices.ContainsFunc(s.workers, lazy)) {
		wait(ctx.Done(), 100*time.Millisecond)
	}
}

// work does steps with a client of its own.
func (s *Soak) work(ctx context.Context, w *worker) (err error) {
	done := sync.OnceFunc(s.working.Done)
	defer done()
	if w.db, err = client.Dial(ctx, s.opt.Addr); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.db.Close()) }()
	step, end := w.begin(w)
	for !s.stopping() {
		switch later, refused := advice(step(ctx)); {
		case refused == nil:
			w.steps.Add(1)
			wait(s.stopped, w.pause)
		case later > 0:
			w.refused.Add(1)
			wait(s.stopped, later)
		default:
			return refused
		}
	}
	done()
	s.working.Wait() // so that nothing is put any more
	if end == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return end(ctx)
}

// stopping reports whether no new step is begun.
func (s *Soak) stopping() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

func (s *Soak) say(format string, args ...any) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.opt.Say(format, args...)
}

// wait waits for a time, or until end is closed.
func wait(end <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-end:
	}
}

// watch takes samples until ctx ends.
func (s *Soak) watch(ctx context.Context, r *Report) error {
	said := time.Now()
	for {
		wait(ctx.Done(), s.opt.Every)
		if ctx.Err() != nil {
			return nil
		}
		sample, err := s.sampler.take(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		r.Samples = append(r.Samples, sample)
		if time.Since(said) >= time.Minute || len(r.Samples) == 1 {
			said = time.Now()
			s.say("%s", sample)
		}
	}
}

// settle waits until the node has noticed that its clients are gone.
func (s *Soak) settle(ctx context.Context, r *Report) (err error) {
	for deadline := time.Now().Add(2 * time.Minute); ; wait(ctx.Done(), 100*time.Millisecond) {
		r.After, err = s.sampler.take(ctx)
		s.web.CloseIdleConnections()
		if err != nil || r.Left() == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// tell fills in what the clients did.
func (s *Soak) tell(r *Report) {
	r.Checked, r.Unsure = s.checked.Load(), s.unsure.Load()
	for _, w := range s.workers {
		r.Workers = append(r.Workers, Work{w.name, w.steps.Load(), w.refused.Load()})
		r.Refused += w.refused.Load()
	}
	for _, t := range s.tenants {
		r.Records += t.total()
	}
}

// prepare sets policies and stores what never changes.
func (s *Soak) prepare(ctx context.Context) (err error) {
	db, err := client.Dial(ctx, s.opt.Addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, t := range s.tenants {
		if err := db.SetRetention(ctx, client.Retention{CID: &t.cid,
			MaxAcqAgeNs: int64(s.opt.Age), DelayNs: int64(s.opt.Delay)}); err != nil {
			return err
		}
	}
	var b record.Batch
	for i := range int64(fixedRows) {
		b.Append(record.Key{CID: fixedTenant, MID: i, MOID: 1}, number(nil, float64(i)/8))
	}
	_, err = db.Put(ctx, &b, [16]byte{1}, 1)
	return err
}

// host is the address without its scheme.
func (s *Soak) host() string { return strings.TrimPrefix(s.opt.Addr, "http://") }
