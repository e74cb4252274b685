// Package acqtime hands out acquisition times, and knows how far the horizon of a store may be.
//
// It does not know rows nor the log: its caller tells it what the log proves. Its main type is
// [Clock], which any goroutine may use. It starts none.
package acqtime

import (
	"sync"
	"time"
)

// LeaseNs is how far the horizon may advance beyond what the log proves. After a crash no acq below
// the newest logged one plus this is assigned, so a horizon that a reader got stays true even if
// the wall clock was set back. One second costs at most one extra flush a second.
const LeaseNs = int64(time.Second)

// Clock hands out acquisition times: strictly increasing, close to the wall clock, never below a
// horizon that was given to a reader.
type Clock struct {
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
	// leasedNs is the lease of a leader on the horizon of the group that holds here, apart from the
	// log; pendingLease holds once its command was applied. While the replica is a copy there is
	// none, as its acqs are not those of the group; voidNs is its horizon from before.
	leasedNs      int64
	pendingLease  Position
	leasesRevoked bool
	voidNs        int64
}

// New returns a clock that follows now, nanoseconds since 1970.
func New(now func() int64) *Clock { return &Clock{now: now} }

// Open notes the acq above all acqs that were found on disk.
func (c *Clock) Open(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = ns
}

// Begin lets the clock of a store of its own go on from an acq. The log implies one lease beyond
// what it proves, and that one is used up by then.
func (c *Clock) Begin(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.logged = ns, ns-LeaseNs
}

// Reserve takes n consecutive acquisition times and returns the first. The horizon stays below it
// until Publish or Cancel.
func (c *Clock) Reserve(n int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := max(c.next, c.now())
	c.next = first + int64(n)
	if c.inflight == 0 {
		c.inflight = first
	}
	return first
}

// Publish ends the commit group in flight: its rows are durable and visible, so the horizon may
// pass them.
func (c *Clock) Publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inflight = 0
	c.logged = max(c.logged, c.next)
}

// Cancel ends the group in flight without it: nothing of it is on disk, and its acquisition times
// are never given again.
func (c *Clock) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inflight = 0
}

// LeaseLogged records that the log holds the lease up to ns. None below is given any more, also
// when the clock is set back: a copy of the directory that begins there lacks nothing that comes.
func (c *Clock) LeaseLogged(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logged, c.next = max(c.logged, ns), max(c.next, ns)
}

// Proven returns the acq below which all that was given or promised is proven.
func (c *Clock) Proven() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.logged, c.opened)
}

// LeaseCovers reports whether the horizon may be at ns without another lease.
func (c *Clock) LeaseCovers(ns int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ns <= c.logged+LeaseNs
}

// Horizon returns an acq H such that every row below H is visible and none will be added there.
// stale reports that the wall clock is further than the log allows to promise: the caller then
// logs a lease and asks again.
func (c *Clock) Horizon() (h int64, stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := c.logged + LeaseNs
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

// Published returns the horizon without extending the lease.
func (c *Clock) Published() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inflight != 0 {
		return min(c.inflight, c.next)
	}
	return max(c.next, c.leasedNs)
}

// Finish returns the floor that a clean close may log: a horizon asked for meanwhile stays there.
func (c *Clock) Finish() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
	return c.next
}

// Floor returns the acq below which nothing will be given any more.
func (c *Clock) Floor() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// Present returns an acq that the log may promise now.
func (c *Clock) Present() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copied || c.driven {
		return c.next
	}
	return max(c.next, c.now())
}

// StartCopy makes the horizon stand at an acq, up to which everything was copied.
func (c *Clock) StartCopy(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied, c.next, c.logged, c.opened = true, ns, ns, ns
}

// EndCopy lets the clock go on above what was copied.
func (c *Clock) EndCopy(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied, c.next = false, max(c.next, ns)
}

// Drive notes up to which command and acq the log of a replica was applied.
func (c *Clock) Drive(at Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.driven, c.next, c.logged, c.index = true, at.NextNs, at.NextNs, at.Index
	if c.pendingLease.NextNs > 0 && c.pendingLease.Index <= c.index {
		c.leasedNs, c.pendingLease = max(c.leasedNs, c.pendingLease.NextNs), Position{}
	}
}

// RevokeLeases ends the leases of leaders: the replica has become a copy, whose acqs are others.
func (c *Clock) RevokeLeases(horizonNs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leasesRevoked, c.voidNs = true, horizonNs
	c.leasedNs, c.pendingLease = 0, Position{}
}

// AcceptLeases accepts leases again.
func (c *Clock) AcceptLeases() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leasesRevoked, c.voidNs = false, 0
}

// GrantLease takes the lease of a leader that every command after the one at an index gives acqs
// from ns on, and reports whether that holds here already.
func (c *Clock) GrantLease(index uint64, ns int64) (holds bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.leasesRevoked || !c.driven:
	case index <= c.index:
		c.leasedNs = max(c.leasedNs, ns)
		return true
	case ns > c.pendingLease.NextNs:
		c.pendingLease = Position{Index: index, NextNs: ns}
	}
	return false
}

// LogHorizon returns the acq below which the log of a replica gives none any more, whatever leaders
// promise apart from it, and gave none while it was no copy.
func (c *Clock) LogHorizon() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.next, c.voidNs)
}

// IsCopy reports whether the store is a copy.
func (c *Clock) IsCopy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copied
}

// Claim takes the acquisition times from first up to end, unless first lies below the floor, which
// it returns. The horizon stays below them until Publish, and below a group that failed for good.
func (c *Clock) Claim(first, end int64) (floor int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first < c.next {
		return c.next, false
	}
	if c.inflight == 0 {
		c.inflight = first
	}
	c.next = end
	return end, true
}

// Unclaim gives back what claim took from first on, under one lock: without the group in flight, a
// horizon that is asked for meanwhile would rise above. What lies below first is not given back,
// because a horizon may have been given there meanwhile.
func (c *Clock) Unclaim(first int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inflight, c.next = 0, first
}

// Position is how far a replicated store has come. It is the whole of what it needs to know of its
// log: the same commands from there on give the same state.
type Position struct {
	Index  uint64 `json:"index"`       // of the last command that was applied
	NextNs int64  `json:"next_acq_ns"` // the horizon: no command after it gives a smaller acq
}
