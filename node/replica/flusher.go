package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
)

const (
	// stallAfter is six ticks, and well before followers lose patience: a disk that takes longer
	// for one flush is not one to lead groups from.
	stallAfter = 300 * time.Millisecond
	// failAfter is when waiting for the disk ends.
	failAfter = 10 * time.Second
	// flushPerByte is what both give a flush for its size: a slow disk writes 20 MB a second.
	flushPerByte = 50 * time.Nanosecond
)

// job is records that are written together; done hears when they are durable.
type job struct {
	records []record
	bytes   int
	sync    bool // records need a flush; those of other jobs come along with the next one
	done    func(error)
}

// flusher puts jobs into the shared log, in order.
type flusher struct {
	core  *Core
	began atomic.Int64          // when the flush in progress began, plus 1; 0 for none
	bytes atomic.Int64          // of its entries
	since atomic.Int64          // when the disk was full first, plus 1; 0 when it has space
	lack  atomic.Pointer[error] // how the last write ended while the disk is full
	later []record              // what needs no flush by itself; the flusher's own

	mu    sync.Mutex // guards queue and full
	queue []*job
	full  bool // the disk is; the next tick tries again
}

func (f *flusher) add(j *job) {
	f.addLater(j)
	f.core.opt.Wake(Flusher)
}

// addLater adds a job that comes along with the next one.
func (f *flusher) addLater(j *job) {
	f.mu.Lock()
	f.queue = append(f.queue, j)
	f.mu.Unlock()
}

// take returns the jobs of the next flush.
func (f *flusher) take() []*job {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return nil
	}
	n, bytes := 0, 0
	for n < len(f.queue) && (n == 0 || bytes+f.queue[n].bytes <= maxFlushPart) {
		bytes += f.queue[n].bytes
		n++
	}
	out := slices.Clone(f.queue[:n])
	f.queue = slices.Delete(f.queue, 0, n)
	return out
}

func (f *flusher) retry() {
	f.mu.Lock()
	full := f.full
	f.full = false
	f.mu.Unlock()
	if full {
		f.core.opt.Wake(Flusher)
	}
}

func (f *flusher) putBack(jobs []*job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(jobs, f.queue...)
	f.full = true
}

// StepFlusher writes and syncs what waits, once.
func (c *Core) StepFlusher() bool {
	f := &c.flusher
	jobs := f.take()
	if len(jobs) == 0 {
		return false
	}
	flush := slices.ContainsFunc(jobs, func(j *job) bool { return j.sync })
	before, bytes := len(f.later), 0
	for _, j := range jobs {
		f.later = append(f.later, j.records...)
		bytes += j.bytes
	}
	var err error
	if flush {
		f.bytes.Store(int64(bytes))
		f.began.Store(int64(c.opt.Now()) + 1)
		err = c.journal.write(f.later)
		f.began.Store(0)
		if errors.Is(err, durable.ErrNoSpace) {
			lack := err // a name of its own: only then it leaves the stack
			f.lack.Store(&lack)
			f.since.CompareAndSwap(0, int64(c.opt.Now())+1)
			clear(f.later[before:])
			f.later = f.later[:before]
			f.putBack(jobs)
			return false
		}
		f.since.Store(0)
		clear(f.later)
		f.later = f.later[:0]
		if err == nil {
			err = c.journal.removeUnneeded()
		}
	}
	for _, j := range jobs {
		j.done(err)
	}
	if err != nil {
		c.fail(err)
	}
	return true
}

func (f *flusher) drain() {
	f.mu.Lock()
	jobs := f.queue
	f.queue = nil
	f.mu.Unlock()
	for _, j := range jobs {
		j.done(ErrClosed)
	}
}

func (c *Core) fail(err error) { c.failing.Do(func() { c.opt.Fail(err) }) }

// NoSpace returns a durable.ErrNoSpace while the log waits for space on the disk, nil else.
func (c *Core) NoSpace() error {
	since, lack := c.flusher.since.Load(), c.flusher.lack.Load()
	if since == 0 || lack == nil {
		return nil
	}
	return fmt.Errorf("the log of the groups has waited for space for %v: %w",
		(c.opt.Now() - time.Duration(since-1)).Round(time.Second), *lack)
}

// watchDisk looks whether the disk answers, and has space. It is not to blame for time in which
// nothing looked: then the whole process stood still, or its machine.
func (c *Core) watchDisk() {
	now := c.opt.Now()
	f := &c.flusher
	began := f.began.Load()
	asleep := now - c.watched
	c.watched = now
	if began != 0 && asleep > stallAfter {
		later := min(began+int64(asleep), int64(now)+1) // it may have begun after the sleep
		if f.began.CompareAndSwap(began, later) {
			began = later
		}
	}
	took := time.Duration(0)
	if began != 0 {
		took = max(0, now-time.Duration(began-1))
	}
	size := time.Duration(f.bytes.Load()) * flushPerByte
	full := f.since.Load()
	c.stalled.Store(took > stallAfter+size ||
		full != 0 && now-time.Duration(full-1) > stallAfter)
	if took > failAfter+size {
		c.fail(fmt.Errorf("%w: the disk has not finished a write for %v", ErrLogFailed, took))
	}
}

// applier runs what machines do, for each group in order.
type applier struct {
	core *Core

	mu    sync.Mutex // guards ready, and tasks and busy of groups
	ready []*group
}

// applies queues something that its machine is used for.
func (g *group) applies(task func()) {
	a := &g.core.applier
	a.mu.Lock()
	g.tasks = append(g.tasks, task)
	if !g.busy && len(g.tasks) == 1 {
		a.ready = append(a.ready, g)
	}
	a.mu.Unlock()
	g.core.opt.Wake(Applier)
}

// StepApplier lets the machine of one group do what waits for it.
func (c *Core) StepApplier() bool {
	a := &c.applier
	a.mu.Lock()
	if len(a.ready) == 0 {
		a.mu.Unlock()
		return false
	}
	g := a.ready[0]
	a.ready = slices.Delete(a.ready, 0, 1)
	tasks := g.tasks
	g.tasks, g.busy = nil, true
	a.mu.Unlock()
	for _, task := range tasks {
		task()
	}
	a.mu.Lock()
	g.busy = false
	if len(g.tasks) > 0 {
		a.ready = append(a.ready, g)
	}
	a.mu.Unlock()
	return true
}
