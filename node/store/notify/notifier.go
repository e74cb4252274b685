// Package notify wakes the feeds of a store that wait for commits.
//
// It does not know what a feed reads, nor rows: it is told of bounds and of horizons. Its main type
// is [Notifier], which any goroutine may use; its caller runs one goroutine, [Notifier.Run].
package notify

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/store/bounds"
)

const (
	// wakePause is how long feeds are left alone after they were woken: commits of that time are
	// read together.
	wakePause = time.Millisecond
	// wakeCost is about what one feed takes to look at what came: the more feeds there are of a
	// box, the longer they are left alone, and half a processor is the most that they take.
	wakeCost = 20 * time.Microsecond
)

// noAcq is awaited by no feed.
const noAcq = math.MaxInt64

// Waiter is what one feed waits with.
type Waiter struct {
	Woken chan struct{} // holds one: something may have come to the box

	bounds  bounds.Box
	awaited int64 // the horizon that it is woken at, too; guarded by Notifier.mu
}

// NewWaiter returns one for what comes into bounds.
func NewWaiter(b bounds.Box) *Waiter {
	return &Waiter{Woken: make(chan struct{}, 1), bounds: b, awaited: noAcq}
}

// Notifier wakes the feeds that wait for commits. The committer reports the bounds of what was
// committed, and the horizon; one goroutine wakes the feeds whose boxes meet the bounds, and those
// that wait for the horizon.
type Notifier struct {
	count   atomic.Int64  // of feeds; without any the committer has nothing to say
	awaited atomic.Int64  // the least acq that a feed awaits; noAcq for none
	wake    chan struct{} // holds one: something was committed

	mu      sync.Mutex
	feeds   map[*Waiter]struct{} // guarded by mu, and what they await
	came    bounds.Box           // of what was committed since the last round, guarded by mu
	nothing bool                 // nothing was, guarded by mu
}

// New returns a notifier without feeds.
func New() *Notifier {
	n := &Notifier{wake: make(chan struct{}, 1), feeds: map[*Waiter]struct{}{}, nothing: true}
	n.awaited.Store(noAcq)
	return n
}

// Add makes a feed be woken by what is committed from now on.
func (n *Notifier) Add(w *Waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.feeds[w] = struct{}{}
	n.count.Store(int64(len(n.feeds)))
}

// Remove ends what Add began.
func (n *Notifier) Remove(w *Waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.feeds, w)
	n.count.Store(int64(len(n.feeds)))
}

// HasWaiters reports whether any feed waits.
func (n *Notifier) HasWaiters() bool { return n.count.Load() > 0 }

// Changed wakes all feeds after an event, whatever its box.
func (n *Notifier) Changed() {
	if n.HasWaiters() {
		n.NotifyRows(bounds.All())
	}
}

// NotifyRows wakes the feeds whose boxes meet the bounds of rows that the horizon has passed, or
// will pass next.
func (n *Notifier) NotifyRows(b *bounds.Box) {
	n.mu.Lock()
	if n.nothing {
		n.came, n.nothing = *b, false
	} else {
		n.came.Include(b)
	}
	n.mu.Unlock()
	n.call()
}

// call asks for a round.
func (n *Notifier) call() {
	select {
	case n.wake <- struct{}{}:
	default: // a round is due
	}
}

// Await makes a feed be woken when the horizon has passed an acq.
func (n *Notifier) Await(w *Waiter, acqNs int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.awaited = min(w.awaited, acqNs)
	n.awaited.Store(min(n.awaited.Load(), acqNs))
}

// Passed tells of a horizon, when a feed awaits that it comes so far.
func (n *Notifier) Passed(horizonNs int64) {
	if n.awaited.Load() < horizonNs {
		n.call()
	}
}

// round wakes the feeds that what was committed may concern, and those that await less than the
// horizon, and returns how many.
func (n *Notifier) round(horizonNs int64) (woken int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	least := int64(noAcq)
	for w := range n.feeds {
		passed := w.awaited < horizonNs
		if passed {
			w.awaited = noAcq
		}
		least = min(least, w.awaited)
		if !passed && (n.nothing || !w.bounds.Overlaps(&n.came)) {
			continue
		}
		woken++
		select {
		case w.Woken <- struct{}{}:
		default: // it has not looked yet
		}
	}
	n.awaited.Store(least)
	n.nothing = true
	return woken
}

// Run wakes feeds until stop is closed; horizon returns the one that readers see.
func (n *Notifier) Run(horizon func() int64, stop <-chan struct{}) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-stop:
			return
		case <-n.wake:
		}
		woken := n.round(horizon())
		pause.Reset(max(wakePause, time.Duration(woken)*wakeCost))
		select {
		case <-stop:
			return
		case <-pause.C:
		}
	}
}
