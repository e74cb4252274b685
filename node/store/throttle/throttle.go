// Package throttle slows commits down while merges are behind.
//
// It does not know segments: its caller counts those that merges still make fewer. Its main type is
// [Throttle]. It starts no goroutine.
package throttle

import (
	"sync/atomic"
	"time"
)

const (
	// SlowdownFrom is how many mergeable segments a shard may have before commits are delayed:
	// twice as many as merges leave. Each further segment adds to the delay.
	SlowdownFrom = 24
	// NsPerRow is the delay of a commit for each of its rows and each segment above SlowdownFrom.
	NsPerRow = 100
	// maxDelay is the longest delay of a commit.
	maxDelay = 100 * time.Millisecond
)

// Throttle is how far the merges of a store are behind. All methods may be called from many
// goroutines.
type Throttle struct {
	excess    atomic.Int64 // segments above SlowdownFrom
	delayedNs atomic.Int64
}

// SetBacklog notes how many mergeable segments the shard with the largest merge backlog has.
func (t *Throttle) SetBacklog(count int) { t.excess.Store(int64(max(0, count-SlowdownFrom))) }

// Excess returns by how many segments the shard with the largest merge backlog exceeds
// SlowdownFrom.
func (t *Throttle) Excess() int64 { return t.excess.Load() }

// DelayedNs returns by how long commits were delayed.
func (t *Throttle) DelayedNs() int64 { return t.delayedNs.Load() }

// Wait delays a commit of this number of rows while merges are behind, until stop is closed.
func (t *Throttle) Wait(rows int, stop <-chan struct{}) {
	excess := t.excess.Load()
	if excess == 0 {
		return
	}
	delay := min(maxDelay, time.Duration(excess*NsPerRow*int64(rows)))
	t.delayedNs.Add(int64(delay))
	select {
	case <-time.After(delay):
	case <-stop:
	}
}
