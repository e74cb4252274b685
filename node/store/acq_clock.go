package store

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// leaseNs is how far the horizon may advance beyond what the log proves. After a crash no acq below
// the newest logged one plus this is assigned, so a horizon that a reader got stays true even if
// the wall clock was set back. One second costs at most one extra flush a second.
const leaseNs = int64(time.Second)

// acqClock hands out acquisition times: strictly increasing, close to the wall clock, never below a
// horizon that was given to a reader.
type acqClock struct {
	now func() int64

	mu       sync.Mutex
	next     int64  // no acq below this will be given from now on
	logged   int64  // the log proves that acqs below this were given or promised
	opened   int64  // what was found on disk proves that they were below this
	inflight int64  // first acq of the group being committed, 0 when there is none
	finished bool   // the log says that the store was closed cleanly, at next
	copied   bool   // the store is a copy: next is its horizon, and stands still between ranges
	driven   bool   // the store is a replica: next moves with its log only
	index    uint64 // of the last command of the log of a replica that was applied
	// leasedNs is what leaders of the group have promised of its horizon beside the log, and
	// holds here; promise does once its command was applied. While the replica is a copy there is
	// none, as its acqs are not those of the group; voidNs is its horizon from before.
	leasedNs      int64
	pendingLease  position
	leasesRevoked bool
	voidNs        int64
}

// reserve takes n consecutive acquisition times and returns the first. The horizon stays below it
// until settle.
func (c *acqClock) reserve(n int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := max(c.next, c.now())
	c.next = first + int64(n)
	if c.inflight == 0 {
		c.inflight = first
	}
	return first
}

// publish ends the commit group in flight: its rows are durable and visible, so the horizon may
// pass them.
func (c *acqClock) publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inflight = 0
	c.logged = max(c.logged, c.next)
}

// cancel ends the group in flight without it: nothing of it is on disk, and its acquisition times
// are never given again.
func (c *acqClock) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inflight = 0
}

// leaseLogged records that the log holds the lease up to ns. None below is given any more, also
// when the clock is set back: a copy of the directory that begins there lacks nothing that comes.
func (c *acqClock) leaseLogged(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logged, c.next = max(c.logged, ns), max(c.next, ns)
}

// proven returns the acq below which all that was given or promised is proven.
func (c *acqClock) proven() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.logged, c.opened)
}

// leaseCovers reports whether the horizon may be at ns without another lease.
func (c *acqClock) leaseCovers(ns int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ns <= c.logged+leaseNs
}

// horizon returns an acq H such that every row below H is visible and none will be added there.
// stale reports that the wall clock is further than the log allows to promise: the caller then
// logs a lease and asks again.
func (c *acqClock) horizon() (h int64, stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := c.logged + leaseNs
	if c.inflight != 0 {
		return min(c.inflight, limit), false // a group in flight proves nothing yet
	}
	if c.finished || c.copied || c.driven {
		return max(c.next, c.leasedNs), false
	}
	h = max(c.next, c.now())
	if h > limit { // also when next is: a group was cancelled
		h, stale = limit, true
	}
	c.next = max(c.next, h)
	return h, stale
}

// published returns the horizon without extending the lease.
func (c *acqClock) published() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inflight != 0 {
		return min(c.inflight, c.next)
	}
	return max(c.next, c.leasedNs)
}

// finish returns the floor that a clean close may log: a horizon asked for beside it stays there.
func (c *acqClock) finish() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
	return c.next
}

// floor returns the acq below which nothing will be given any more.
func (c *acqClock) floor() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// present returns an acq that the log may promise now.
func (c *acqClock) present() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copied || c.driven {
		return c.next
	}
	return max(c.next, c.now())
}

// startCopy makes the horizon stand at an acq, up to which everything was copied.
func (c *acqClock) startCopy(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied, c.next, c.logged, c.opened = true, ns, ns, ns
}

// endCopy lets the clock go on above what was copied.
func (c *acqClock) endCopy(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied, c.next = false, max(c.next, ns)
}

// drive notes up to which command and acq the log of a replica was applied.
func (c *acqClock) drive(at position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.driven, c.next, c.logged, c.index = true, at.NextNs, at.NextNs, at.Index
	if c.pendingLease.NextNs > 0 && c.pendingLease.Index <= c.index {
		c.leasedNs, c.pendingLease = max(c.leasedNs, c.pendingLease.NextNs), position{}
	}
}

// revokeLeases ends the leases of leaders: the replica has become a copy, whose acqs are others.
func (c *acqClock) revokeLeases(horizonNs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leasesRevoked, c.voidNs = true, horizonNs
	c.leasedNs, c.pendingLease = 0, position{}
}

// acceptLeases accepts leases again.
func (c *acqClock) acceptLeases() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leasesRevoked, c.voidNs = false, 0
}

// grantLease takes the lease of a leader that every command after the one at an index gives acqs
// from ns on, and reports whether that holds here already.
func (c *acqClock) grantLease(index uint64, ns int64) (holds bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.leasesRevoked || !c.driven:
	case index <= c.index:
		c.leasedNs = max(c.leasedNs, ns)
		return true
	case ns > c.pendingLease.NextNs:
		c.pendingLease = position{Index: index, NextNs: ns}
	}
	return false
}

// logHorizon returns the acq below which the log of a replica gives none any more, whatever leaders
// promise beside it, and gave none while it was no copy.
func (c *acqClock) logHorizon() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.next, c.voidNs)
}

// isCopy reports whether the store is a copy.
func (c *acqClock) isCopy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copied
}

// Horizon returns an acq H such that the rows with acq < H never change again. It follows the
// wall clock when nothing is written; once the log has failed it stands still, above every row
// that was acknowledged.
//
// Cost: at most once a second one small synced write to the log.
func (s *Store) Horizon(ctx context.Context) (int64, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	h, stale := s.clock.horizon()
	if !stale {
		return h, nil
	}
	var failed error
	wanted := s.clock.present()
	if err := s.onCommitter(ctx, func() {
		if !s.clock.leaseCovers(wanted) { // else one who asked at the same time had it logged
			failed = s.logLease()
		}
	}); err != nil {
		return 0, err
	}
	if failed == nil {
		h, _ = s.clock.horizon()
	}
	return h, nil // puts say what is wrong with the log; queries need no promise
}

// logLease makes the log hold that no acq below the present is given any more.
func (s *Store) logLease() error {
	ns := s.clock.present()
	file, err := s.appendLog(s.marks(ns, false))
	if err != nil {
		return fmt.Errorf("log promise: %w", err)
	}
	s.noteFile(file, nil)
	s.clock.leaseLogged(ns)
	return nil
}
