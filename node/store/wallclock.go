package store

import (
	"math"
	"sync"
	"time"
)

const (
	// lastClockNs is the greatest reading of a clock that rows are stamped with, in 2200: what lies
	// between there and the end of int64, in 2262, is enough stamps for ever after.
	lastClockNs = 7_258_118_400_000_000_000
	// maxLeap is how far the wall clock may leap ahead at once and be followed at once: a machine
	// that slept over a weekend is followed, a year that was mistyped is not.
	maxLeap = 3 * 24 * time.Hour
	// leapWait is how long a clock that leapt further must stay there to be followed: a time server
	// that errs is corrected sooner, and a clock that was wrong before is right for good.
	leapWait = 10 * time.Minute
)

// wallClock reads the system's clock and does not follow it at once when it leaps far ahead: stamps
// never go back, so those of a clock that is wrong for a minute would be wrong for years. How time
// goes on is what the monotonic clock says.
type wallClock struct {
	read func() (wallNs, monotonicNs int64)

	mu      sync.Mutex
	started bool
	offset  int64 // from the monotonic clock to the one that is followed
	leapt   bool  // the clock is further ahead than may be followed
	leaptAt int64 // on the monotonic clock
	leaptTo int64 // the offset then
	leaps   int64 // how often that came about
}

func newWallClock() *wallClock {
	began := time.Now()
	return &wallClock{read: func() (int64, int64) {
		now := time.Now()
		return now.UnixNano(), int64(now.Sub(began))
	}}
}

// now returns the time to stamp rows with. A clock that was set back is followed: it is the store's
// that stamps rise all the same.
func (c *wallClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, monotonic := c.read()
	offset := wall - monotonic
	switch {
	case !c.started || offset-c.offset <= int64(maxLeap):
		c.started, c.leapt, c.offset = true, false, offset
	case !c.leapt || offset-c.leaptTo > int64(maxLeap): // it did not stay there
		c.leapt, c.leaptAt, c.leaptTo = true, monotonic, offset
		c.leaps++
	case monotonic-c.leaptAt >= int64(leapWait):
		c.leapt, c.offset = false, offset
	}
	return c.offset + monotonic
}

// ClockState says how the clock that rows are stamped with stands to the machine's.
type ClockState struct {
	// AheadNs is how far acqs are ahead of the machine's clock, because it was set back: they go on
	// from where they were until it has passed them. 0: they follow it.
	AheadNs int64
	// LeaptNs is how far the machine's clock is ahead of the stamps, because it leapt further than
	// three days and has not stayed there for ten minutes. 0: it has not.
	LeaptNs int64
	Leaps   int64 // such leaps since Open
}

// Clock returns the state of the clock. With Options.Now nothing is known of the machine's.
func (s *Store) Clock() (state ClockState) {
	now := s.opt.Now()
	state.AheadNs = max(0, s.clock.floor()-now)
	if state.AheadNs < int64(promiseNs) {
		state.AheadNs = 0 // stamps of one flush, or a promise
	}
	if s.wall == nil {
		return state
	}
	s.wall.mu.Lock()
	defer s.wall.mu.Unlock()
	state.Leaps = s.wall.leaps
	if s.wall.leapt {
		wall, _ := s.wall.read()
		state.LeaptNs = wall - now
	}
	return state
}

// clamped returns a clock that ends in 2200.
func clamped(now func() int64) func() int64 {
	return func() int64 { return max(math.MinInt64+2*promiseNs, min(now(), lastClockNs)) }
}
