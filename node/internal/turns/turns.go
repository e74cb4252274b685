// Package turns lets long questions take turns at the processors, so that short ones find one free.
//
// It knows nothing of what is asked, and starts no goroutines. Its main type is [Turns].
package turns

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// longAfter is the work, of all its goroutines, that makes a question a long one.
	longAfter = 2 * time.Millisecond
	// turn is how long a goroutine keeps its turn while others wait.
	turn = time.Millisecond
	// lease is how long a turn is held without a word of its holder: one that waits for a client or
	// for a lock needs no processor, and loses it.
	lease = 10 * time.Millisecond
	// recent is how long after a short question the next one is expected.
	recent = 100 * time.Millisecond
	// look is how often those who wait look for turns that were lost or are no longer kept free.
	look = 5 * time.Millisecond
)

// Turns shares the processors among long questions. All methods may be called from many goroutines.
//
// A question is short until it has worked for 2 ms; short ones run whenever they like. The
// goroutines of long ones hold turns, as many at once as there are processors, and one fewer while
// there are short questions, or were a moment ago. Of those who wait, the owner goes first that had
// the least time, and of its goroutines the one that waits longest. On a single processor long
// questions wait for short ones, but for a turn in 5 ms.
type Turns struct {
	all   int
	began time.Time

	short   atomic.Int32
	long    atomic.Int32
	asked   atomic.Int64 // when the last short one ended, in ns after began
	waiting atomic.Int32

	mu     sync.Mutex
	holds  []*Stint          // guarded by mu, as all below
	owners map[uint64]*owner // that hold or wait, or had more than others
	served time.Duration     // what the owner served last had had: where newcomers begin
}

type owner struct {
	had   time.Duration
	held  int
	queue []*Stint
}

// New returns turns at a number of processors.
func New(processors int) *Turns {
	t := &Turns{all: max(1, processors), began: time.Now(), owners: map[uint64]*owner{}}
	t.asked.Store(-int64(recent))
	return t
}

// Question is what one who asks has the processors for. Its methods may be called of nil, and from
// many goroutines.
type Question struct {
	of     *Turns
	owner  uint64
	worked atomic.Int64 // ns
	long   atomic.Bool
}

// Begin begins a question of an owner, who is who shares turns as one. End is called once.
func (t *Turns) Begin(owner uint64) *Question {
	t.short.Add(1)
	return &Question{of: t, owner: owner}
}

// BeginLong is Begin for what is a part of something long: it takes turns from its first step on.
func (t *Turns) BeginLong(owner uint64) *Question {
	t.long.Add(1)
	q := &Question{of: t, owner: owner}
	q.long.Store(true)
	return q
}

// End ends it, after all its stints.
func (q *Question) End() {
	if q.long.Load() {
		q.of.long.Add(-1)
		return
	}
	q.of.asked.Store(int64(time.Since(q.of.began)))
	q.of.short.Add(-1)
}

// add adds work to a question, and reports whether it is a long one.
func (q *Question) add(worked time.Duration) bool {
	if q.long.Load() {
		return true
	}
	if q.worked.Add(int64(min(worked, lease))) < int64(longAfter) {
		return false
	}
	if !q.long.Swap(true) {
		q.of.short.Add(-1)
		q.of.long.Add(1)
	}
	return true
}

type questionKey struct{}

// With gives a question to what works for it.
func With(ctx context.Context, q *Question) context.Context {
	return context.WithValue(ctx, questionKey{}, q)
}

// Of returns the question that With gave, or nil.
func Of(ctx context.Context) *Question {
	q, _ := ctx.Value(questionKey{}).(*Question)
	return q
}

// Stats say what is under way.
type Stats struct{ Short, Long, Waiting int }

// Stats returns the present figures: questions, and goroutines of long ones that wait for a turn.
func (t *Turns) Stats() Stats {
	return Stats{int(t.short.Load()), int(t.long.Load()), int(t.waiting.Load())}
}

// Stint is the work of one goroutine for a question, from Start to Stop. The zero value is of no
// question, and its methods do nothing.
type Stint struct {
	q       *Question
	since   time.Time // of work that is not told yet
	holds   bool      // guarded by mu, as all below
	told    time.Time // when its holder last was heard of
	granted chan struct{}
}

// Start begins a stint.
func (q *Question) Start() Stint {
	if q == nil {
		return Stint{}
	}
	return Stint{q: q, since: time.Now()}
}

// Pause is called between two steps of the work, tens of microseconds each: a goroutine of a long
// question waits there for its turn.
//
// Errors: the cause of ctx.
func (s *Stint) Pause(ctx context.Context) error {
	if s.q == nil {
		return nil
	}
	now := time.Now()
	worked := now.Sub(s.since)
	if !s.q.long.Load() && worked < longAfter/8 || !s.q.add(worked) {
		if worked >= longAfter/8 {
			s.since = now
		}
		return nil
	}
	t := s.q.of
	t.mu.Lock()
	if s.holds && !t.mustGive(worked, now) {
		s.told = now
		t.mu.Unlock()
		return nil
	}
	o := t.give(s, worked, now)
	s.since = now
	if t.waiting.Load() == 0 && t.mayTake(now, 0) {
		t.hold(s, o, now)
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

// Stop ends the stint. It may be called more than once.
func (s *Stint) Stop() {
	if s.q == nil {
		return
	}
	now := time.Now()
	if worked := now.Sub(s.since); s.q.add(worked) {
		t := s.q.of
		t.mu.Lock()
		t.give(s, worked, now)
		t.grant(now, 0)
		t.forget()
		t.mu.Unlock()
	}
	s.q = nil
}

// limit returns how many hold turns at once.
func (t *Turns) limit(now time.Time) int {
	if t.short.Load() > 0 || now.Sub(t.began)-time.Duration(t.asked.Load()) < recent {
		return t.all - 1
	}
	return t.all
}

// mustGive says whether one that holds a turn gives it up: to one that waits, or as fewer may hold
// one than before. It is called with mu held.
func (t *Turns) mustGive(held time.Duration, now time.Time) bool {
	over := len(t.holds) > t.limit(now)
	if t.all == 1 {
		over = t.short.Load() > 0 && held >= turn/4 // and not for one that might come
	}
	return over || held >= turn && t.waiting.Load() > 0
}

// mayTake says whether there is a turn for one that has waited for a while. It is called with mu
// held.
func (t *Turns) mayTake(now time.Time, waited time.Duration) bool {
	limit := t.limit(now)
	if t.all == 1 && (waited >= look || t.short.Load() == 0) {
		limit = 1
	}
	if len(t.holds) < limit {
		return true
	}
	for _, h := range t.holds {
		if now.Sub(h.told) >= lease {
			t.lose(h)
			return len(t.holds) < limit
		}
	}
	return false
}

// lose takes a turn from one that was not heard of. It is called with mu held.
func (t *Turns) lose(s *Stint) {
	t.holds = slices.DeleteFunc(t.holds, func(h *Stint) bool { return h == s })
	s.holds = false
	o := t.owners[s.q.owner]
	o.held--
	o.had += lease
}

// give takes the turn back from a stint that has one, and returns its owner. It is called with mu
// held.
func (t *Turns) give(s *Stint, held time.Duration, now time.Time) *owner {
	o := t.owners[s.q.owner]
	if o == nil {
		o = &owner{had: t.served}
		t.owners[s.q.owner] = o
	}
	if s.holds {
		t.holds = slices.DeleteFunc(t.holds, func(h *Stint) bool { return h == s })
		s.holds = false
		o.held--
		o.had += min(held, lease)
	}
	return o
}

// hold is called with mu held.
func (t *Turns) hold(s *Stint, o *owner, now time.Time) {
	t.served = max(t.served, o.had)
	o.held++
	s.holds, s.told, s.since = true, now, now
	t.holds = append(t.holds, s)
}

// grant hands turns to those who wait. It is called with mu held.
func (t *Turns) grant(now time.Time, waited time.Duration) {
	for t.waiting.Load() > 0 && t.mayTake(now, waited) {
		var next *owner
		for _, o := range t.owners {
			if len(o.queue) > 0 && (next == nil || o.had < next.had) {
				next = o
			}
		}
		s := next.queue[0]
		next.queue = slices.Delete(next.queue, 0, 1)
		t.waiting.Add(-1)
		t.hold(s, next, now)
		close(s.granted)
	}
}

// wait waits until a stint that is queued has its turn. With an error it has none.
func (t *Turns) wait(ctx context.Context, s *Stint) error {
	again := time.NewTicker(look)
	defer again.Stop()
	began := time.Now()
	for {
		select {
		case <-s.granted:
			s.since = time.Now()
			return nil
		case now := <-again.C:
			t.mu.Lock()
			t.grant(now, now.Sub(began))
			t.mu.Unlock()
		case <-ctx.Done():
			t.leave(s)
			return context.Cause(ctx)
		}
	}
}

// leave gives up waiting, and the turn that was granted in the same moment.
func (t *Turns) leave(s *Stint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owners[s.q.owner]
	if o == nil {
		return // the turn was granted, and lost before this goroutine ran again
	}
	if at := slices.Index(o.queue, s); at >= 0 {
		o.queue = slices.Delete(o.queue, at, at+1)
		t.waiting.Add(-1)
	} else {
		t.give(s, 0, time.Now())
		t.grant(time.Now(), 0)
	}
	t.forget()
}

// forget removes owners that owe nothing to others. It is called with mu held.
func (t *Turns) forget() {
	idle := len(t.holds) == 0 && t.waiting.Load() == 0
	for key, o := range t.owners {
		if o.held == 0 && len(o.queue) == 0 && (o.had <= t.served || idle) {
			delete(t.owners, key)
		}
	}
}
