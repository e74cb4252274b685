// Package clock is the only time source of a node.
//
// It owns a hybrid clock over two readings of the machine: the wall clock, which anyone can set,
// and the monotonic clock, which only counts. Their difference is the offset. While the offset
// stays within a bound of the last confirmed one, the clock follows the wall clock. A larger step
// is not followed until other evidence confirms it: the clocks of a majority of the nodes of the
// cluster, the kernel's status that its clock is synchronized, or ten minutes without another step.
// Until then the time advances by the monotonic clock.
//
// In a cluster, a time that a majority has confirmed stays confirmed while the process runs, and is
// passed to nodes that start. If none is confirmed and clocks differ, the clock returns no time to
// stamp records with.
//
// It knows nothing of stores, groups or networks: an owner hands in what a directory proves of the
// past with [Clock.Begin], and carries the messages of [Clock.Ping] and [Clock.Hear]. Its main type
// is [Clock]; it starts no goroutines.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultMaxOffset is how far a wall clock may be from the last confirmed offset, or from the
	// clocks of the other nodes. NTP keeps machines within a tenth of it.
	DefaultMaxOffset = 500 * time.Millisecond
	// maxGap is how far the wall clock may be ahead of all that a directory proves when it is
	// opened, and be followed at once: a machine that was off over a weekend is followed, a year
	// that was mistyped is not.
	maxGap = 3 * 24 * time.Hour
	// freshGap is the gap below which what a directory proves confirms the clock.
	freshGap = time.Hour
	// stayFor is how long a clock that stepped must stay there to be followed without other
	// evidence: a wrong time server is corrected sooner.
	stayFor = 10 * time.Minute
	// syncFor is how long the kernel must say that its clock is synchronised after a step.
	syncFor = 10 * time.Second
	// lookEvery is how often the kernel's status is read, at most.
	lookEvery = time.Second
	// firstNs and lastNs are the ends of what a wall clock may say, in 1933 and 2200.
	firstNs = -1 << 60
	lastNs  = 7_258_118_400_000_000_000
)

// Reading is the time, and whether evidence other than the wall clock confirms it. What cannot be
// undone, e.g. the removal of bytes, waits for a confirmed reading.
type Reading struct {
	NowNs     int64
	Confirmed bool
	Others    bool // the clocks of other nodes decide what is confirmed
}

// Machine is what a clock reads of the machine that it is on.
type Machine interface {
	// Read returns the wall clock, in ns since 1970, and a clock that only counts.
	Read() (wallNs, monotonicNs int64)
	// SleptNs returns for how long the machine has slept so far: the monotonic clock stands still
	// meanwhile. Only differences count.
	SleptNs() int64
	// Synchronized reports whether the machine says that its wall clock follows a time server.
	Synchronized() bool
}

// Options of a clock. The zero value works.
type Options struct {
	MaxOffset time.Duration // default 500 ms
	Machine   Machine       // default: the one that the process runs on
}

// Clock is a hybrid clock. All methods may be called from many goroutines.
type Clock struct {
	machine Machine
	boundNs int64
	given   func() int64 // of Of; the rest is not used then

	calm   atomic.Bool  // no step is pending, so a reading near the anchor is the time
	fine   atomic.Bool  // no other node contradicts the time that is followed
	leads  atomic.Bool  // see MayLead
	heard  atomic.Bool  // see Heard
	anchor atomic.Int64 // the last offset that was accepted; changed under mu

	mu        sync.Mutex // guards what follows
	acqNs     int64      // the newest acq that Begin was told of
	pastNs    int64      // likewise, files included
	settled   bool       // the machine or other nodes have confirmed the clock
	beganNs   int64      // on the monotonic clock, as all times below
	sleptNs   int64      // that is part of the anchor
	confirmed bool       // evidence is in favour of the anchor
	since     int64      // since when the offset has been where it is
	stepped   bool       // the wall clock is further from the anchor than the bound
	steppedTo int64      // its offset then
	opening   bool       // the step is one that was found by Begin
	syncedAt  int64      // when the kernel first said that it is synchronised; 0: it did not
	lookedAt  int64      // when the kernel was asked last
	steps     int64
	followed  int64 // of the steps

	peers peers
}

// New returns a clock that follows the machine's.
func New(opt Options) *Clock {
	if opt.MaxOffset <= 0 {
		opt.MaxOffset = DefaultMaxOffset
	}
	if opt.Machine == nil {
		opt.Machine = newMachine()
	}
	c := &Clock{machine: opt.Machine, boundNs: int64(opt.MaxOffset)}
	wall, monotonic := c.read()
	c.anchor.Store(wall - monotonic)
	c.beganNs, c.since, c.sleptNs = monotonic, monotonic, c.machine.SleptNs()
	c.lookedAt = monotonic - int64(lookEvery)
	c.peers.begin()
	c.calm.Store(true)
	c.publishVerdict()
	return c
}

// Of returns a clock that is what a function says, and always confirmed: for programs that replay
// or simulate.
func Of(nowNs func() int64) *Clock { return &Clock{given: nowNs} }

// NowNs returns the time, in ns since 1970. It may go back, when the wall clock was set back.
//
// Cost: that of time.Now, and no lock unless the wall clock has stepped.
func (c *Clock) NowNs() int64 {
	if c.given != nil {
		return c.given()
	}
	wall, monotonic := c.read()
	if c.calm.Load() && c.within(wall-monotonic-c.anchor.Load()) {
		return wall
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.look()
}

// Now returns the time in UTC, by which moments such as now-24h are read.
func (c *Clock) Now() time.Time { return time.Unix(0, c.NowNs()).UTC() }

// Read returns the time, and whether it is confirmed.
func (c *Clock) Read() Reading {
	if c.given != nil {
		return Reading{NowNs: c.given(), Confirmed: true}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.look()
	return Reading{NowNs: now, Confirmed: c.hasEvidence(), Others: c.peers.nodes > 1}
}

// hasEvidence reports whether there is evidence for where the wall clock is. The caller holds mu.
func (c *Clock) hasEvidence() bool {
	return c.confirmed && !c.stepped && c.peers.verdict != Undecided
}

// read reads the machine. Wall clocks far outside of all that is meant are cut, so that sums of
// times do not overflow.
func (c *Clock) read() (wallNs, monotonicNs int64) {
	wallNs, monotonicNs = c.machine.Read()
	return cut(wallNs), monotonicNs
}

func cut(ns int64) int64 { return max(firstNs, min(ns, lastNs)) }

func (c *Clock) within(ns int64) bool { return -c.boundNs <= ns && ns <= c.boundNs }

// Begin sets what is known of the past when a directory is opened: the newest acq of its log, and
// the newest time of its files; 0: unknown. The greatest of several stores counts. It has no effect
// once other evidence has confirmed the clock, or the clock has run for long.
func (c *Clock) Begin(acqNs, fileNs int64) {
	if c.given != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acqNs, c.pastNs = max(c.acqNs, acqNs), max(c.pastNs, acqNs, fileNs)
	wall, monotonic := c.read()
	if c.settled || monotonic-c.beganNs >= int64(stayFor) || c.pastNs <= 0 ||
		c.stepped && !c.opening {
		return
	}
	switch gap := wall - c.pastNs; {
	case gap > int64(maxGap):
		c.startFrom(c.pastNs, wall, monotonic)
	case c.behind(wall):
		// Only an acq is a time to go on from: it is in the log, and a file has the time that
		// any program gave it.
		c.startFrom(c.acqNs, wall, monotonic)
	default:
		c.anchor.Store(wall - monotonic)
		c.confirmed = gap >= -c.boundNs && gap <= int64(freshGap)
	}
	c.look()
}

// behind reports whether a wall clock is behind the newest acq of the log, which is then a time
// that has passed: the clock that gave it was ahead by twice the bound at most, as one may be that
// another one confirmed. The caller holds mu.
func (c *Clock) behind(wall int64) bool { return c.acqNs > wall+2*c.boundNs }

// startFrom makes time continue from a past time, because the wall clock is too far from it.
func (c *Clock) startFrom(ns, wall, monotonic int64) {
	c.confirmed = false
	c.anchor.Store(ns - monotonic)
	if !c.stepped {
		c.step(wall-monotonic, monotonic)
	}
	c.opening = true
}

// look reads the machine and decides what the time is. The caller holds mu.
func (c *Clock) look() (nowNs int64) {
	wall, monotonic := c.read()
	for range 3 { // the process may have been stopped between its two clocks
		if c.within(wall - monotonic - c.anchor.Load()) {
			break
		}
		wall, monotonic = c.read()
	}
	offset := wall - monotonic
	if slept := c.machine.SleptNs(); slept-c.sleptNs > c.boundNs/2 {
		c.anchor.Add(slept - c.sleptNs)
		c.sleptNs = slept
	}
	anchor := c.anchor.Load()
	switch {
	case c.within(offset - anchor):
		c.stepped, c.opening = false, false
		c.calm.Store(true)
		if !c.confirmed && c.evidence(monotonic) {
			c.accept(offset)
		}
		return wall
	case !c.stepped || !c.within(offset-c.steppedTo):
		c.step(offset, monotonic)
	}
	if c.evidence(monotonic) {
		c.followed++
		c.accept(offset)
		c.peers.sure = false
		return wall
	}
	return anchor + monotonic
}

// step notes that the wall clock has stepped. The caller holds mu.
func (c *Clock) step(offset, monotonic int64) {
	c.calm.Store(false)
	c.stepped, c.opening, c.steppedTo, c.since, c.syncedAt = true, false, offset, monotonic, 0
	c.steps++
}

// accept makes an offset the one that is followed. The caller holds mu.
func (c *Clock) accept(offset int64) {
	c.anchor.Store(offset)
	c.confirmed, c.settled, c.stepped, c.opening = true, true, false, false
	c.calm.Store(true)
}

// evidence reports whether the machine itself confirms where its wall clock is now. Where other
// nodes are heard only these can do it, see judge. The caller holds mu.
func (c *Clock) evidence(monotonic int64) bool {
	if c.peers.nodes > 1 && c.peers.verdict != Unknown {
		return false
	}
	if monotonic-c.since >= int64(stayFor) {
		return true
	}
	if monotonic-c.lookedAt >= int64(lookEvery) {
		c.lookedAt = monotonic
		switch {
		case !c.machine.Synchronized():
			c.syncedAt = 0
		case c.syncedAt == 0:
			c.syncedAt = max(monotonic, 1)
		}
	}
	atOnce := c.opening || !c.stepped // nothing has moved while this process looked
	return c.syncedAt != 0 && (atOnce || monotonic-c.syncedAt >= int64(syncFor))
}

// State is what is known of a clock.
type State struct {
	WallNs    int64 // of the machine
	NowNs     int64 // that is followed
	StepNs    int64 // how far the wall clock is ahead of what is followed; 0: it is followed
	WaitNs    int64 // until the step is followed if it stays; 0: not before it is confirmed
	Steps     int64 // beyond the bound, since the clock was made
	Followed  int64 // of them, as they were confirmed
	Confirmed bool
	Synced    bool // the kernel says that its clock is synchronised
	Verdict   Verdict
	OffForNs  int64 // how long the verdict has been against the clock
	Peers     []Peer
}

// State returns how the clock is.
func (c *Clock) State() State {
	if c.given != nil {
		now := c.given()
		return State{WallNs: now, NowNs: now, Confirmed: true}
	}
	synced := c.machine.Synchronized()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.look()
	wall, monotonic := c.read()
	s := State{WallNs: wall, NowNs: now, Confirmed: c.hasEvidence(), Steps: c.steps,
		Followed: c.followed, Synced: synced}
	if c.stepped {
		s.StepNs = wall - monotonic - c.anchor.Load()
		if c.peers.nodes <= 1 {
			s.WaitNs = max(1, int64(stayFor)-(monotonic-c.since))
		}
	}
	c.peers.describe(&s, wall-monotonic, monotonic)
	return s
}
