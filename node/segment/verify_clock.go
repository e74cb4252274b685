package segment

import (
	"sync/atomic"
	"time"
)

// VerifyAfter is for how long a block that was verified is read without being verified again. Its
// bytes are in a mapping: the system may drop them from memory, read them again from a disk that
// returns others, and says neither. So what rot can do to an answer ends after this time. 10 s: a
// query that is repeated within it pays nothing, and memory that is read again and again is
// verified at most every 10 s, which takes 1 to 2 % of a processor per GiB.
const VerifyAfter = 10 * time.Second

const verifySeconds = uint32(VerifyAfter / time.Second)

// VerifyClock tells segments how long ago a block was verified. Only [VerifyClock.Refresh] reads
// the time, which takes as long as to open a block. With nil blocks are verified each time.
type VerifyClock struct {
	now    func() time.Time
	start  time.Time
	second atomic.Uint32 // since start, from 1 on
}

// NewVerifyClock returns a clock that now, which is [time.Now] but in tests, drives.
func NewVerifyClock(now func() time.Time) *VerifyClock {
	c := &VerifyClock{now: now, start: now()}
	c.Refresh()
	return c
}

// Refresh reads the time. Readers call it when they begin, and now and then.
func (c *VerifyClock) Refresh() {
	if c != nil {
		c.second.Store(1 + uint32(c.now().Sub(c.start)/time.Second))
	}
}

// tick returns the second to record for a block that is verified now; never 0.
func (c *VerifyClock) tick() uint32 {
	if c == nil {
		return 1
	}
	return c.second.Load()
}

// isRecent reports whether a block that was verified at a tick need not be verified now.
func (c *VerifyClock) isRecent(tick uint32) bool {
	return c != nil && tick != 0 && c.second.Load()-tick < verifySeconds
}

// RefreshClock refreshes the clock of the segment.
func (s *File) RefreshClock() { s.clock.Refresh() }

// VerifyTick returns the tick of a block that is verified from now on.
func (s *File) VerifyTick() uint32 { return s.clock.tick() }

// IsRecent reports whether a tick that VerifyTick returned is within [VerifyAfter]; 0 never is.
func (s *File) IsRecent(tick uint32) bool { return s.clock.isRecent(tick) }

// RecentlyVerified reports whether a block was verified within [VerifyAfter], so that its bytes are
// likely in memory and opening it reads only its header.
func (s *File) RecentlyVerified(i int) bool { return s.clock.isRecent(s.verified[i].Load()) }
