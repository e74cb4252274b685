package cluster

import (
	"cmp"
	"fmt"
)

// Limits bound how fast copies move, so that nodes still serve meanwhile.
type Limits struct {
	Copies      uint32 // that a node takes in at a time; 0: DefaultCopies
	BytesPerSec uint64 // of copies that a node sends; 0: DefaultBytesPerSec
}

const (
	// DefaultCopies that a node takes in at a time: with more, its disk would do little else.
	DefaultCopies = 2
	// DefaultBytesPerSec leaves most of a disk and of a gigabit line to everything else.
	DefaultBytesPerSec = 64 << 20

	maxCopies      = 64
	minBytesPerSec = 1 << 20 // slower, and who waits for a part of a copy takes the line for cut
	maxBytesPerSec = 1 << 40
)

func (l Limits) copies() int { return int(cmp.Or(l.Copies, DefaultCopies)) }

// Rate returns the bytes of copies that a node sends in a second.
func (l Limits) Rate() int64 { return int64(cmp.Or(l.BytesPerSec, DefaultBytesPerSec)) }

func (l *Limits) fields(c *coder) {
	number(c, &l.Copies)
	number(c, &l.BytesPerSec)
}

func (l *Limits) check() error {
	if l.Copies > maxCopies {
		return fmt.Errorf("%d copies at a time: at most %d are possible", l.Copies, maxCopies)
	}
	if b := l.BytesPerSec; b != 0 && (b < minBytesPerSec || b > maxBytesPerSec) {
		return fmt.Errorf("copies at %d bytes a second: %d to %d are possible", b,
			minBytesPerSec, int64(maxBytesPerSec))
	}
	return nil
}

func (x *SetLimits) check() error { return x.Limits.check() }

func (x *SetLimits) apply(s *State) Result {
	if s.limits == x.Limits {
		return Result{}
	}
	s.epoch++
	s.limits = x.Limits
	return Result{Changed: true}
}
