//go:build !clocksteps

package clock

import "time"

// system is the machine that the process runs on.
type system struct{ began time.Time }

func newMachine() Machine { return system{time.Now()} }

func (s system) Read() (wallNs, monotonicNs int64) {
	now := time.Now()
	return now.UnixNano(), int64(now.Sub(s.began))
}

func (s system) SleptNs() int64 { return sleptNs() }

func (s system) Synchronized() bool { return synchronized() }
