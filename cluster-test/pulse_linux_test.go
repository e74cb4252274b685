package cluster_test

import (
	"context"
	"sync"
	"time"
)

// pulse notes when the machine stood still or was too busy to let the test run: what takes long
// then says nothing of the cluster.
//
// Goroutines: one; its context ends it.
type pulse struct {
	mu   sync.Mutex // guards gaps
	gaps []time.Time
}

const (
	pulseEvery  = 50 * time.Millisecond
	maxPulseGap = 500 * time.Millisecond
)

func (p *pulse) beat(ctx context.Context) {
	for last := time.Now(); ctx.Err() == nil; {
		wait(ctx, pulseEvery)
		now := time.Now()
		if now.Sub(last) > maxPulseGap {
			p.mu.Lock()
			p.gaps = append(p.gaps, now)
			p.mu.Unlock()
		}
		last = now
	}
}

// missed reports whether a beat came late since a time.
func (p *pulse) missed(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.gaps) > 0 && p.gaps[len(p.gaps)-1].After(since)
}
