// Package acqtime allocates acquisition times, and knows how far the horizon of a store may be.
//
// It does not know rows nor the log: its caller tells it what is durably logged. Its main type
// is [Oracle], which any goroutine may use. It starts none.
package acqtime

import (
	"sync"
	"time"
)

// LeaseNs is how far the horizon may advance beyond what is durably logged. After a crash no acq
// below the newest logged one plus this is assigned, so a horizon that a reader got stays true even
// if the wall clock was set back. One second costs at most one extra log append a second.
const LeaseNs = int64(time.Second)

// Oracle allocates acquisition times: strictly increasing, close to the wall clock, never below a
// horizon that a reader got. It is the timestamp oracle of a store.
//
//	            durable         inFlight         next   durable + LeaseNs
//	--- visible ---|--- visible ---|--- commit ---|--- free ---|---> acq
//
// It is durably logged that acqs below durable were allocated or leased. The commit in flight has
// those from inFlight to next; the horizon stays below it. Without one, the horizon follows next
// and the wall clock, never beyond the lease, which ends LeaseNs above durable. After a crash the
// store goes on above the lease, so a horizon that a reader got stays true.
type Oracle struct {
	now func() int64

	mu            sync.Mutex
	next          int64  // no acq below this will be allocated from now on
	durable       int64  // acqs below this are durably logged as allocated or leased
	durableAtOpen int64  // the same, of what was on disk when the store opened
	inFlight      int64  // first acq of the commit in flight, 0 when there is none
	finished      bool   // the log says that the store was closed cleanly, at next
	copied        bool   // the store is a copy: next is its horizon, and moves with ranges only
	replicated    bool   // the store is a replica: next moves with its log only
	index         uint64 // of the last command of the log of a replica that was applied
	// leaderLeaseNs is how far the horizon of a replica may be ahead of what it has applied: the
	// group's leader leased the acqs below it. pendingLease is a lease that comes into force when
	// the command with its index has been applied. A replica that is a copy has no lease, because
	// its acqs come from the store that it copies, not from the group; priorHorizonNs is the
	// horizon that it had before it became a copy.
	leaderLeaseNs  int64
	pendingLease   Applied
	leasesRevoked  bool
	priorHorizonNs int64
}

// New returns an oracle that follows now, nanoseconds since 1970.
func New(now func() int64) *Oracle { return &Oracle{now: now} }

// SetDurableAtOpen notes the acq above all acqs that were found on disk.
func (o *Oracle) SetDurableAtOpen(ns int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.durableAtOpen = ns
}

// StartAt lets the oracle of a stand-alone store go on from an acq. The log implies one lease
// beyond what is durable, and that one is used up by then.
func (o *Oracle) StartAt(ns int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next, o.durable = ns, ns-LeaseNs
}

// Reserve takes n consecutive acquisition times and returns the first. The horizon stays below it
// until EndCommit or Cancel.
func (o *Oracle) Reserve(n int) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := max(o.next, o.now())
	o.next = first + int64(n)
	if o.inFlight == 0 {
		o.inFlight = first
	}
	return first
}

// EndCommit ends the commit in flight: its rows are durable and in the heads, so the horizon may
// pass them, which makes them visible.
func (o *Oracle) EndCommit() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight = 0
	o.durable = max(o.durable, o.next)
}

// Cancel ends the commit in flight without it: nothing of it is on disk, and its acquisition times
// are never allocated again.
func (o *Oracle) Cancel() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight = 0
}

// LeaseLogged records that the log holds the lease up to ns. No acq below is allocated any more,
// even if the wall clock is set back: a copy of the directory that begins there misses no later
// row.
func (o *Oracle) LeaseLogged(ns int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.durable, o.next = max(o.durable, ns), max(o.next, ns)
}

// DurableNs returns the acq below which all that was allocated or leased is durably logged.
func (o *Oracle) DurableNs() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(o.durable, o.durableAtOpen)
}

// LeaseCovers reports whether the horizon may be at ns without another lease.
func (o *Oracle) LeaseCovers(ns int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return ns <= o.durable+LeaseNs
}

// Horizon returns an acq H such that every row below H is visible and no put adds one there, but
// for rows below the horizon.
// leaseExpired reports that the wall clock is beyond the lease: the caller then logs a new one and
// asks again.
func (o *Oracle) Horizon() (h int64, leaseExpired bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	limit := o.durable + LeaseNs
	if o.inFlight != 0 {
		return min(o.inFlight, limit), false // a commit in flight is not durable yet
	}
	if o.finished || o.copied || o.replicated {
		return max(o.next, o.leaderLeaseNs), false
	}
	h = max(o.next, o.now())
	if h > limit { // also when next is: a commit was cancelled
		h, leaseExpired = limit, true
	}
	o.next = max(o.next, h)
	return h, leaseExpired
}

// CurrentHorizon returns the horizon without extending the lease.
func (o *Oracle) CurrentHorizon() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inFlight != 0 {
		return min(o.inFlight, o.next)
	}
	return max(o.next, o.leaderLeaseNs)
}

// Finish returns the acq that a clean close may log as the last lease: later horizons stay there.
func (o *Oracle) Finish() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	return o.next
}

// NextNs returns the acq below which nothing will be allocated any more.
func (o *Oracle) NextNs() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next
}

// LeaseTarget returns the acq up to which a lease may be logged now.
func (o *Oracle) LeaseTarget() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.copied || o.replicated {
		return o.next
	}
	return max(o.next, o.now())
}

// StartCopy fixes the horizon at an acq, up to which everything was copied.
func (o *Oracle) StartCopy(ns int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.copied, o.next, o.durable, o.durableAtOpen = true, ns, ns, ns
}

// EndCopy lets the oracle go on above what was copied.
func (o *Oracle) EndCopy(ns int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.copied, o.next = false, max(o.next, ns)
}

// SetApplied sets up to which command and acq the log of a replica was applied.
func (o *Oracle) SetApplied(at Applied) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replicated, o.next, o.durable, o.index = true, at.NextNs, at.NextNs, at.Index
	if o.pendingLease.NextNs > 0 && o.pendingLease.Index <= o.index {
		o.leaderLeaseNs, o.pendingLease = max(o.leaderLeaseNs, o.pendingLease.NextNs), Applied{}
	}
}

// RevokeLeases ends the leases of leaders: the replica has become a copy, and takes acqs from the
// store that it copies.
func (o *Oracle) RevokeLeases(horizonNs int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leasesRevoked, o.priorHorizonNs = true, horizonNs
	o.leaderLeaseNs, o.pendingLease = 0, Applied{}
}

// AcceptLeases accepts leases again: the replica is no longer a copy.
func (o *Oracle) AcceptLeases() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leasesRevoked, o.priorHorizonNs = false, 0
}

// GrantLease takes a lease of the leader: every command after the one at index allocates acqs from
// ns on. It reports whether the lease is in force: the replica has applied that command. Otherwise
// the lease is pending until SetApplied reaches the index.
func (o *Oracle) GrantLease(index uint64, ns int64) (inForce bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.leasesRevoked || !o.replicated:
	case index <= o.index:
		o.leaderLeaseNs = max(o.leaderLeaseNs, ns)
		return true
	case ns > o.pendingLease.NextNs:
		o.pendingLease = Applied{Index: index, NextNs: ns}
	}
	return false
}

// LogHorizon returns the acq below which the log of a replica allocates none any more, whatever
// leaders lease, and allocated none while it was not a copy.
func (o *Oracle) LogHorizon() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(o.next, o.priorHorizonNs)
}

// IsCopy reports whether the store is a copy.
func (o *Oracle) IsCopy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.copied
}

// ReserveAt takes the acquisition times from first up to end, unless first is below next, which it
// returns. The horizon stays below them until EndCommit, and below a commit that failed for good.
func (o *Oracle) ReserveAt(first, end int64) (next int64, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first < o.next {
		return o.next, false
	}
	if o.inFlight == 0 {
		o.inFlight = first
	}
	o.next = end
	return end, true
}

// UnreserveFrom gives back what ReserveAt took from first on, under one lock: without the commit in
// flight, a concurrent horizon would rise above it. What is below first is not given back, because
// a horizon may have been returned there meanwhile.
func (o *Oracle) UnreserveFrom(first int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight, o.next = 0, first
}

// Applied is how far a replicated store has come. It is the whole of what it needs to know of its
// log: the same commands from there on give the same state.
type Applied struct {
	Index  uint64 `json:"index"`       // of the last command that was applied
	NextNs int64  `json:"next_acq_ns"` // the horizon: no command after it allocates a smaller acq
}
