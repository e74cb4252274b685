package store

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/store/bounds"
)

const (
	// wakePause is how long followers are left alone after they were woken: commits of that time
	// are read together.
	wakePause = time.Millisecond
	// wakeCost is about what one follower takes to look at what came; so many more follow the same
	// box, so much longer they are left alone, and half a processor is the most that they take.
	wakeCost = 20 * time.Microsecond
)

// noAcq is awaited by no feed.
const noAcq = math.MaxInt64

// feedNotifier wakes the feeds that wait for commits. The committer reports the bounds of what was
// committed, and the horizon; one goroutine wakes the feeds whose boxes meet the bounds, and those
// that wait for the horizon.
type feedNotifier struct {
	count   atomic.Int64  // of feeds; without any the committer has nothing to say
	awaited atomic.Int64  // the least acq that a feed awaits; noAcq for none
	wake    chan struct{} // holds one: something was committed

	mu      sync.Mutex
	feeds   map[*Feed]struct{} // guarded by mu, and what they await
	came    bounds.Box         // of what was committed since the last round, guarded by mu
	nothing bool               // nothing was, guarded by mu
}

func newFeedNotifier() *feedNotifier {
	w := &feedNotifier{wake: make(chan struct{}, 1), feeds: map[*Feed]struct{}{}, nothing: true}
	w.awaited.Store(noAcq)
	return w
}

// add makes a feed be woken by what is committed from now on.
func (w *feedNotifier) add(f *Feed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.feeds[f] = struct{}{}
	w.count.Store(int64(len(w.feeds)))
}

func (w *feedNotifier) remove(f *Feed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.feeds, f)
	w.count.Store(int64(len(w.feeds)))
}

// committed tells of rows that are visible, and that the horizon has passed or will pass next.
func (w *feedNotifier) committed(group []*putRequest) {
	if w.count.Load() == 0 {
		return
	}
	var b bounds.Box
	first := true
	for _, r := range group {
		for i := range r.byShard {
			one := bounds.OfRows(&r.byShard[i].rows)
			if first {
				b, first = one, false
			}
			b.Include(&one)
		}
	}
	if !first {
		w.tell(&b)
	}
}

// changed tells of an event, wherever it is.
func (w *feedNotifier) changed() {
	if w.count.Load() > 0 {
		w.tell(bounds.All())
	}
}

func (w *feedNotifier) tell(b *bounds.Box) {
	w.mu.Lock()
	if w.nothing {
		w.came, w.nothing = *b, false
	} else {
		w.came.Include(b)
	}
	w.mu.Unlock()
	w.call()
}

// call asks for a round.
func (w *feedNotifier) call() {
	select {
	case w.wake <- struct{}{}:
	default: // a round is due
	}
}

// await makes a feed be woken when the horizon has passed an acq.
func (w *feedNotifier) await(f *Feed, acqNs int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.awaited = min(f.awaited, acqNs)
	w.awaited.Store(min(w.awaited.Load(), acqNs))
}

// passed tells of a horizon, when a feed awaits that it comes so far.
func (w *feedNotifier) passed(horizonNs int64) {
	if w.awaited.Load() < horizonNs {
		w.call()
	}
}

// round wakes the feeds that what was committed may concern, and those that await less than the
// horizon, and returns how many.
func (w *feedNotifier) round(horizonNs int64) (woken int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	least := int64(noAcq)
	for f := range w.feeds {
		passed := f.awaited < horizonNs
		if passed {
			f.awaited = noAcq
		}
		least = min(least, f.awaited)
		if !passed && (w.nothing || !f.bounds.Meets(&w.came)) {
			continue
		}
		woken++
		select {
		case f.woken <- struct{}{}:
		default: // it has not looked yet
		}
	}
	w.awaited.Store(least)
	w.nothing = true
	return woken
}

// followLoop wakes feeds until the store closes.
func (s *Store) followLoop() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.feeds.wake:
		}
		woken := s.feeds.round(s.clock.Published())
		pause.Reset(max(wakePause, time.Duration(woken)*wakeCost))
		select {
		case <-s.stop:
			return
		case <-pause.C:
		}
	}
}
