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
	s := &Scheduler{processors: max(1, processors), began: time.Now(), owners: map[uint64]*owner{}}
	s.shortEnded.Store(-int64(recent))
	return s
}

// now returns the time since the scheduler began: to read that takes half as long as [time.Now].
func (s *Scheduler) now() time.Duration { return time.Since(s.began) }

// Task is one unit of work, e.g. a query. A nil Task is valid and never delayed. Its methods may be
// called from many goroutines.
type Task struct {
	scheduler *Scheduler
	owner     uint64
	worked    atomic.Int64 // ns
	long      atomic.Bool
}

// Begin begins a task of an owner; CPU time is shared fairly among owners. End is called once.
func (s *Scheduler) Begin(owner uint64) *Task {
	s.short.Add(1)
	return &Task{scheduler: s, owner: owner}
}

// BeginLong is Begin for a task that counts as long from its first step.
func (s *Scheduler) BeginLong(owner uint64) *Task {
	s.long.Add(1)
	t := &Task{scheduler: s, owner: owner}
	t.long.Store(true)
	return t
}

// End ends a task, after all of its workers have stopped.
func (t *Task) End() {
	if t.long.Load() {
		t.scheduler.long.Add(-1)
		return
	}
	t.scheduler.shortEnded.Store(int64(t.scheduler.now()))
	t.scheduler.short.Add(-1)
}

// add adds CPU time to a task, and reports whether the task is long.
func (t *Task) add(worked time.Duration) bool {
	if t.long.Load() {
		return true
	}
	if t.worked.Add(int64(min(worked, lease))) < int64(longAfter) {
		return false
	}
	if !t.long.Swap(true) {
		t.scheduler.short.Add(-1)
		t.scheduler.long.Add(1)
	}
	return true
}

// Enter is Begin, and returns a context that carries the task.
func (s *Scheduler) Enter(ctx context.Context, owner uint64) (context.Context, *Task) {
	s.short.Add(1)
	c := &taskContext{Context: ctx, task: Task{scheduler: s, owner: owner}}
	return c, &c.task
}

// taskContext is a context and the task that it carries, together: a small query feels each
// allocation.
type taskContext struct {
	context.Context
	task Task
}

type taskKey struct{}

// Value implements [context.Context].
func (c *taskContext) Value(key any) any {
	if key == (taskKey{}) {
		return &c.task
	}
	return c.Context.Value(key)
}

// Of returns the task of a context, or nil.
func Of(ctx context.Context) *Task {
	t, _ := ctx.Value(taskKey{}).(*Task)
	return t
}

// Stats count short tasks, long tasks and waiting workers.
type Stats struct{ Short, Long, Waiting int }

// Stats returns the current figures.
func (s *Scheduler) Stats() Stats {
	return Stats{int(s.short.Load()), int(s.long.Load()), int(s.waiting.Load())}
}

// Worker is the work of one goroutine for a task, from Start to Stop. The methods of the zero value
// do nothing.
type Worker struct {
	task        *Task
	workedSince time.Duration // by now, of CPU time that is not added to the task yet
	running     bool          // guarded by mu, as all below
	lastYield   time.Duration
	granted     chan struct{}
}

// Start starts a worker.
func (t *Task) Start() Worker {
	if t == nil {
		return Worker{}
	}
	return Worker{task: t, workedSince: t.scheduler.now()}
}

// Yield is called between two steps of the work, tens of microseconds each: a worker of a long task
// waits there for its time slice.
//
// Errors: the cause of ctx.
func (w *Worker) Yield(ctx context.Context) error {
	if w.task == nil {
		return nil
	}
	now := w.task.scheduler.now()
	worked := now - w.workedSince
	if !w.task.long.Load() && worked < longAfter/8 || !w.task.add(worked) {
		if worked >= longAfter/8 {
			w.workedSince = now
		}
		return nil
	}
	s := w.task.scheduler
	s.mu.Lock()
	if w.running && !s.mustPreempt(worked, now) {
		w.lastYield = now
		s.mu.Unlock()
		return nil
	}
	o := s.release(w, worked, now)
	w.workedSince = now
	if s.waiting.Load() == 0 && s.mayRun(now, 0) {
		s.run(w, o, now)
		s.mu.Unlock()
		return nil
	}
	w.granted = make(chan struct{})
	o.queue = append(o.queue, w)
	s.waiting.Add(1)
	s.grant(now, 0)
	s.mu.Unlock()
	return s.wait(ctx, w)
}

// Stop ends the worker. It may be called more than once.
func (w *Worker) Stop() {
	if w.task == nil {
		return
	}
	now := w.task.scheduler.now()
	if worked := now - w.workedSince; w.task.add(worked) {
		s := w.task.scheduler
		s.mu.Lock()
		s.release(w, worked, now)
		s.grant(now, 0)
		s.forget()
		s.mu.Unlock()
	}
	w.task = nil
}

// limit returns how many workers of long tasks may run.
func (s *Scheduler) limit(now time.Duration) int {
	if s.short.Load() > 0 || now-time.Duration(s.shortEnded.Load()) < recent {
		return s.processors - 1
	}
	return s.processors
}

// mustPreempt reports whether a running worker must stop: because another waits, or because fewer
// may run than before. It is called with mu held.
func (s *Scheduler) mustPreempt(held time.Duration, now time.Duration) bool {
	over := len(s.running) > s.limit(now)
	if s.processors == 1 {
		over = s.short.Load() > 0 && held >= timeSlice/4 // not for an expected one
	}
	return over || held >= timeSlice && s.waiting.Load() > 0
}

// mayRun reports whether a worker that has waited that long may run. It is called with mu held.
func (s *Scheduler) mayRun(now time.Duration, waited time.Duration) bool {
	limit := s.limit(now)
	if s.processors == 1 && (waited >= pollEvery || s.short.Load() == 0) {
		limit = 1
	}
	if len(s.running) < limit {
		return true
	}
	for _, h := range s.running {
		if now-h.lastYield >= lease {
			s.expire(h)
			return len(s.running) < limit
		}
	}
	return false
}

// expire takes the processor from a worker whose lease is over. It is called with mu held.
func (s *Scheduler) expire(w *Worker) {
	s.running = slices.DeleteFunc(s.running, func(h *Worker) bool { return h == w })
	w.running = false
	o := s.owners[w.task.owner]
	o.held--
	o.had += lease
}

// release takes the processor from a worker that is running, and returns the worker's owner. It is
// called with mu held.
func (s *Scheduler) release(w *Worker, held time.Duration, now time.Duration) *owner {
	o := s.owners[w.task.owner]
	if o == nil {
		o = &owner{had: s.minHad}
		s.owners[w.task.owner] = o
	}
	if w.running {
		s.running = slices.DeleteFunc(s.running, func(h *Worker) bool { return h == w })
		w.running = false
		o.held--
		o.had += min(held, lease)
	}
	return o
}

// run is called with mu held.
func (s *Scheduler) run(w *Worker, o *owner, now time.Duration) {
	s.minHad = max(s.minHad, o.had)
	o.held++
	w.running, w.lastYield, w.workedSince = true, now, now
	s.running = append(s.running, w)
}

// grant lets waiting workers run. It is called with mu held.
func (s *Scheduler) grant(now time.Duration, waited time.Duration) {
	for s.waiting.Load() > 0 && s.mayRun(now, waited) {
		var next *owner
		for _, o := range s.owners {
			if len(o.queue) > 0 && (next == nil || o.had < next.had) {
				next = o
			}
		}
		w := next.queue[0]
		next.queue = slices.Delete(next.queue, 0, 1)
		s.waiting.Add(-1)
		s.run(w, next, now)
		close(w.granted)
	}
}

// wait waits until a queued worker runs. After an error it does not run.
func (s *Scheduler) wait(ctx context.Context, w *Worker) error {
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	began := s.now()
	for {
		select {
		case <-w.granted:
			w.workedSince = s.now()
			return nil
		case <-again.C:
			now := s.now()
			s.mu.Lock()
			s.grant(now, now-began)
			s.mu.Unlock()
		case <-ctx.Done():
			s.leaveQueue(w)
			return context.Cause(ctx)
		}
	}
}

// leaveQueue gives up waiting, and the processor if it was granted in the same moment.
func (s *Scheduler) leaveQueue(w *Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[w.task.owner]
	if o == nil {
		return // the processor was granted, and the lease expired before this goroutine ran
	}
	if at := slices.Index(o.queue, w); at >= 0 {
		o.queue = slices.Delete(o.queue, at, at+1)
		s.waiting.Add(-1)
	} else {
		s.release(w, 0, s.now())
		s.grant(s.now(), 0)
	}
	s.forget()
}

// forget removes idle owners that had no more time than others. It is called with mu held.
func (s *Scheduler) forget() {
	idle := len(s.running) == 0 && s.waiting.Load() == 0
	for key, o := range s.owners {
		if o.held == 0 && len(o.queue) == 0 && (o.had <= s.minHad || idle) {
			delete(s.owners, key)
		}
	}
}
