// Package cpushare schedules long tasks on the processors in time slices, so that short tasks find
// a processor free.
//
// It knows nothing of what the tasks do, and starts no goroutines. Its main type is [Scheduler].
package cpushare

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// longAfter is the CPU time, summed over its workers, after which a task counts as long.
	longAfter = 2 * time.Millisecond
	// timeSlice is how long a worker runs while others wait.
	timeSlice = time.Millisecond
	// lease is how long a worker keeps its processor without calling Yield: a worker that waits for
	// a client or a lock needs none, and loses it.
	lease = 10 * time.Millisecond
	// recent is how long after a short task the next one is expected.
	recent = 100 * time.Millisecond
	// pollEvery is how often waiting workers look for processors freed without a release.
	pollEvery = 5 * time.Millisecond
)

// Scheduler shares the processors among long tasks. All methods may be called from many goroutines.
//
// A task is short until it has used 2 ms of CPU time; short tasks are never delayed. Workers of
// long tasks run on all processors, or on all but one while there are short tasks or were a moment
// ago. Among waiting workers, the owner that had the least CPU time is served first, and its worker
// that waits longest. On a single processor long tasks wait for short ones, except for one time
// slice every 5 ms.
type Scheduler struct {
	processors int
	began      time.Time

	short      atomic.Int32
	long       atomic.Int32
	shortEnded atomic.Int64 // when the last short task ended, in ns after began
	waiting    atomic.Int32

	mu      sync.Mutex
	running []*Worker         // guarded by mu, as all below
	owners  map[uint64]*owner // with workers, or that had more time than others
	minHad  time.Duration     // the least time of an owner that was served: where new owners begin
}

type owner struct {
	had   time.Duration
	held  int
	queue []*Worker
}

// New returns a scheduler for that many processors.
func New(processors int) *Scheduler {
	t := &Scheduler{processors: max(1, processors), began: time.Now(), owners: map[uint64]*owner{}}
	t.shortEnded.Store(-int64(recent))
	return t
}

// Task is one unit of work, e.g. a query. A nil Task is valid and never delayed. Its methods may be
// called from many goroutines.
type Task struct {
	scheduler *Scheduler
	owner     uint64
	worked    atomic.Int64 // ns
	long      atomic.Bool
}

// Begin begins a task of an owner; CPU time is shared fairly among owners. End is called once.
func (t *Scheduler) Begin(owner uint64) *Task {
	t.short.Add(1)
	return &Task{scheduler: t, owner: owner}
}

// BeginLong is Begin for a task that counts as long from its first step.
func (t *Scheduler) BeginLong(owner uint64) *Task {
	t.long.Add(1)
	q := &Task{scheduler: t, owner: owner}
	q.long.Store(true)
	return q
}

// End ends a task, after all of its workers have stopped.
func (q *Task) End() {
	if q.long.Load() {
		q.scheduler.long.Add(-1)
		return
	}
	q.scheduler.shortEnded.Store(int64(time.Since(q.scheduler.began)))
	q.scheduler.short.Add(-1)
}

// add adds CPU time to a task, and reports whether the task is long.
func (q *Task) add(worked time.Duration) bool {
	if q.long.Load() {
		return true
	}
	if q.worked.Add(int64(min(worked, lease))) < int64(longAfter) {
		return false
	}
	if !q.long.Swap(true) {
		q.scheduler.short.Add(-1)
		q.scheduler.long.Add(1)
	}
	return true
}

type taskKey struct{}

// With returns a context that carries a task.
func With(ctx context.Context, q *Task) context.Context {
	return context.WithValue(ctx, taskKey{}, q)
}

// Of returns the task of a context, or nil.
func Of(ctx context.Context) *Task {
	q, _ := ctx.Value(taskKey{}).(*Task)
	return q
}

// Stats count short tasks, long tasks and waiting workers.
type Stats struct{ Short, Long, Waiting int }

// Stats returns the current figures.
func (t *Scheduler) Stats() Stats {
	return Stats{int(t.short.Load()), int(t.long.Load()), int(t.waiting.Load())}
}

// Worker is the work of one goroutine for a task, from Start to Stop. The methods of the zero value
// do nothing.
type Worker struct {
	q           *Task
	workedSince time.Time // of CPU time that is not added to the task yet
	running     bool      // guarded by mu, as all below
	lastYield   time.Time
	granted     chan struct{}
}

// Start starts a worker.
func (q *Task) Start() Worker {
	if q == nil {
		return Worker{}
	}
	return Worker{q: q, workedSince: time.Now()}
}

// Yield is called between two steps of the work, tens of microseconds each: a worker of a long task
// waits there for its time slice.
//
// Errors: the cause of ctx.
func (s *Worker) Yield(ctx context.Context) error {
	if s.q == nil {
		return nil
	}
	now := time.Now()
	worked := now.Sub(s.workedSince)
	if !s.q.long.Load() && worked < longAfter/8 || !s.q.add(worked) {
		if worked >= longAfter/8 {
			s.workedSince = now
		}
		return nil
	}
	t := s.q.scheduler
	t.mu.Lock()
	if s.running && !t.mustPreempt(worked, now) {
		s.lastYield = now
		t.mu.Unlock()
		return nil
	}
	o := t.release(s, worked, now)
	s.workedSince = now
	if t.waiting.Load() == 0 && t.mayRun(now, 0) {
		t.run(s, o, now)
		t.mu.Unlock()
		return nil
	}
	s.granted = make(chan struct{})
	o.queue = append(o.queue, s)
	t.waiting.Add(1)
	t.grant(now, 0)
	t.mu.Unlock()
	return t.wait(ctx, s)
}

// Stop ends the worker. It may be called more than once.
func (s *Worker) Stop() {
	if s.q == nil {
		return
	}
	now := time.Now()
	if worked := now.Sub(s.workedSince); s.q.add(worked) {
		t := s.q.scheduler
		t.mu.Lock()
		t.release(s, worked, now)
		t.grant(now, 0)
		t.forget()
		t.mu.Unlock()
	}
	s.q = nil
}

// limit returns how many workers of long tasks may run.
func (t *Scheduler) limit(now time.Time) int {
	if t.short.Load() > 0 || now.Sub(t.began)-time.Duration(t.shortEnded.Load()) < recent {
		return t.processors - 1
	}
	return t.processors
}

// mustPreempt reports whether a running worker must stop: because another waits, or because fewer
// may run than before. It is called with mu held.
func (t *Scheduler) mustPreempt(held time.Duration, now time.Time) bool {
	over := len(t.running) > t.limit(now)
	if t.processors == 1 {
		over = t.short.Load() > 0 && held >= timeSlice/4 // not for an expected one
	}
	return over || held >= timeSlice && t.waiting.Load() > 0
}

// mayRun reports whether a worker that has waited that long may run. It is called with mu held.
func (t *Scheduler) mayRun(now time.Time, waited time.Duration) bool {
	limit := t.limit(now)
	if t.processors == 1 && (waited >= pollEvery || t.short.Load() == 0) {
		limit = 1
	}
	if len(t.running) < limit {
		return true
	}
	for _, h := range t.running {
		if now.Sub(h.lastYield) >= lease {
			t.expire(h)
			return len(t.running) < limit
		}
	}
	return false
}

// expire takes the processor from a worker whose lease is over. It is called with mu held.
func (t *Scheduler) expire(s *Worker) {
	t.running = slices.DeleteFunc(t.running, func(h *Worker) bool { return h == s })
	s.running = false
	o := t.owners[s.q.owner]
	o.held--
	o.had += lease
}

// release takes the processor from a worker that is running, and returns the worker's owner. It is
// called with mu held.
func (t *Scheduler) release(s *Worker, held time.Duration, now time.Time) *owner {
	o := t.owners[s.q.owner]
	if o == nil {
		o = &owner{had: t.minHad}
		t.owners[s.q.owner] = o
	}
	if s.running {
		t.running = slices.DeleteFunc(t.running, func(h *Worker) bool { return h == s })
		s.running = false
		o.held--
		o.had += min(held, lease)
	}
	return o
}

// run is called with mu held.
func (t *Scheduler) run(s *Worker, o *owner, now time.Time) {
	t.minHad = max(t.minHad, o.had)
	o.held++
	s.running, s.lastYield, s.workedSince = true, now, now
	t.running = append(t.running, s)
}

// grant lets waiting workers run. It is called with mu held.
func (t *Scheduler) grant(now time.Time, waited time.Duration) {
	for t.waiting.Load() > 0 && t.mayRun(now, waited) {
		var next *owner
		for _, o := range t.owners {
			if len(o.queue) > 0 && (next == nil || o.had < next.had) {
				next = o
			}
		}
		s := next.queue[0]
		next.queue = slices.Delete(next.queue, 0, 1)
		t.waiting.Add(-1)
		t.run(s, next, now)
		close(s.granted)
	}
}

// wait waits until a queued worker runs. After an error it does not run.
func (t *Scheduler) wait(ctx context.Context, s *Worker) error {
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	began := time.Now()
	for {
		select {
		case <-s.granted:
			s.workedSince = time.Now()
			return nil
		case now := <-again.C:
			t.mu.Lock()
			t.grant(now, now.Sub(began))
			t.mu.Unlock()
		case <-ctx.Done():
			t.leaveQueue(s)
			return context.Cause(ctx)
		}
	}
}

// leaveQueue gives up waiting, and the processor if it was granted in the same moment.
func (t *Scheduler) leaveQueue(s *Worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owners[s.q.owner]
	if o == nil {
		return // the processor was granted, and the lease expired before this goroutine ran
	}
	if at := slices.Index(o.queue, s); at >= 0 {
		o.queue = slices.Delete(o.queue, at, at+1)
		t.waiting.Add(-1)
	} else {
		t.release(s, 0, time.Now())
		t.grant(time.Now(), 0)
	}
	t.forget()
}

// forget removes idle owners that had no more time than others. It is called with mu held.
func (t *Scheduler) forget() {
	idle := len(t.running) == 0 && t.waiting.Load() == 0
	for key, o := range t.owners {
		if o.held == 0 && len(o.queue) == 0 && (o.had <= t.minHad || idle) {
			delete(t.owners, key)
		}
	}
}
