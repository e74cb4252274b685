package load

import (
	"context"
	"math"
	"sync"
	"time"
)

// Schedule says when requests are due. Requests do not wait for the answers to those before them,
// as those of independent clients do not; only without a rate does a worker's next request follow
// its last answer.
type Schedule struct {
	PerSecond float64       // requests; 0: as fast as answers come
	Requests  int64         // how many; 0: no end
	For       time.Duration // no request is begun later; 0: no end
}

// DueAt returns when request i, from 0, is due.
func (s Schedule) DueAt(i int64) time.Duration {
	if s.PerSecond == 0 {
		return 0
	}
	ns := float64(i) / s.PerSecond * 1e9
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// Due returns how many requests DueAt puts before a time, exactly: those
// that were not sent are called unsent.
func (s Schedule) Due(elapsed time.Duration) int64 {
	if elapsed <= 0 || s.PerSecond == 0 {
		return 0
	}
	if s.For > 0 {
		elapsed = min(elapsed, s.For)
	}
	n := int64(math.MaxInt64)
	if about := math.Ceil(elapsed.Seconds() * s.PerSecond); about < math.MaxInt64 {
		n = int64(about)
	}
	switch { // a product may round to the other side of a whole number
	case n > 0 && s.DueAt(n-1) >= elapsed:
		n--
	case n < math.MaxInt64 && s.DueAt(n) < elapsed:
		n++
	}
	if s.Requests > 0 {
		n = min(n, s.Requests)
	}
	return n
}

// Pacer is a [Source] that follows a schedule.
type Pacer struct {
	schedule Schedule

	mu    sync.Mutex // guards taken
	taken int64
}

// NewPacer returns a source of requests with the indexes 0, 1, 2 and so on.
func NewPacer(s Schedule) *Pacer { return &Pacer{schedule: s} }

// Next implements [Source]. It does not wait: a worker prepares a request before it is due.
func (p *Pacer) Next(_ context.Context, clock Clock) (Task, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.schedule
	due := s.DueAt(p.taken)
	if s.Requests > 0 && p.taken >= s.Requests ||
		s.For > 0 && (due >= s.For || clock.Elapsed() >= s.For) {
		return Task{}, false
	}
	p.taken++
	return Task{Index: p.taken - 1, Timed: s.PerSecond > 0, DueAt: due}, true
}

// Lag implements [Source].
func (p *Pacer) Lag(elapsed time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.schedule
	due := s.DueAt(p.taken)
	if s.PerSecond == 0 || s.Requests > 0 && p.taken >= s.Requests || s.For > 0 && due >= s.For {
		return 0
	}
	return max(0, elapsed-due)
}

// Unsent returns how many requests were due in that time and not begun.
func (p *Pacer) Unsent(elapsed time.Duration) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.schedule.Due(elapsed)-p.taken)
}
