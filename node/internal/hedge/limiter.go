package hedge

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// hedgeShare is the share of calls that may be hedged because a node is slow. By definition 5 %
	// are slower than p95; more hedges would add load that slows everything down.
	hedgeShare = 0.05
	// hedgeBurst is how many hedges may begin at once: when a node stalls, several calls to it are
	// in flight.
	hedgeBurst = 8
	// minHedgeDelay covers pauses of the scheduler and the garbage collector, after which a hedge
	// would be wasted work.
	minHedgeDelay = 20 * time.Millisecond
	// firstHedgeDelay is the delay for a node whose latency is not known yet.
	firstHedgeDelay = 200 * time.Millisecond
	// maxHedgeDelay is the longest hedge delay for a node whose latency is below a quarter of it.
	// After goneAfter, a silent node that gossip does not reach either counts as down.
	maxHedgeDelay = time.Second
	goneAfter     = 5 * time.Second
)

// Limiter limits hedges by a token bucket, and counts them.
type Limiter struct {
	MaxDelay  time.Duration // the longest hedge delay for a node that usually answers faster
	GoneAfter time.Duration // after which a node counts as down if gossip does not reach it either

	mu   sync.Mutex
	debt float64 // guarded by mu: recent hedges; each call reduces it by hedgeShare

	Sent, Won atomic.Int64 // hedges, and those that answered first
}

// NewLimiter returns a limiter with the delays of a node.
func NewLimiter() *Limiter { return &Limiter{MaxDelay: maxHedgeDelay, GoneAfter: goneAfter} }

// Earn is called for each call to another node.
func (h *Limiter) Earn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.debt = max(0, h.debt-hedgeShare)
}

// Take reports whether one more hedge may begin.
func (h *Limiter) Take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.debt+1 > hedgeBurst {
		return false
	}
	h.debt++
	return true
}

// Delay returns how long a node may stay silent before another node is queried, too: soon
// while the hedging limit allows it, late in any case.
func (h *Limiter) Delay(u *Latency) (soon, late time.Duration) {
	took, known := u.p95()
	if !known {
		return min(firstHedgeDelay, h.MaxDelay), h.MaxDelay
	}
	return max(took, minHedgeDelay), max(4*took, h.MaxDelay)
}
