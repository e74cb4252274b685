package node

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
	// under way.
	hedgeBurst = 8
	// minHedgeDelay covers pauses of the scheduler and the garbage collector, after which a hedge
	// would be wasted work.
	minHedgeDelay = 20 * time.Millisecond
	// firstHedgeDelay is the delay for a node whose latency is not known yet.
	firstHedgeDelay = 200 * time.Millisecond
	// silence is the longest hedge delay for a node whose latency is below a quarter of it. After
	// goneAfter, a silent node that gossip does not reach either counts as down.
	silence   = time.Second
	goneAfter = 5 * time.Second
	// maxHedgesLost is how many hedges in a row a node loses before it counts as unavailable for a
	// while.
	maxHedgesLost = 3
)

// callKind is a kind of call to another node; latency is recorded for each.
type callKind int

const (
	askRows callKind = iota
	askCount
	askStates
	askDiff
	askVersions
	askDigest
	askPlan
	askFacts  // answered without reading records: horizons, events
	askChange // a write, which is never hedged
	callKinds
)

// hedging limits hedges by a token bucket, and counts them.
type hedging struct {
	silence, goneAfter time.Duration

	mu   sync.Mutex
	debt float64 // guarded by mu: recent hedges; each call reduces it by hedgeShare

	asked, won atomic.Int64
}

// earn is called for each call to another node.
func (h *hedging) earn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.debt = max(0, h.debt-hedgeShare)
}

// take reports whether one more hedge may begin.
func (h *hedging) take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.debt+1 > hedgeBurst {
		return false
	}
	h.debt++
	return true
}

func (h *hedging) collect(count func(name, help string, v float64)) {
	count("node_hedges_total",
		"Calls hedged by a second node because the first was slow.",
		float64(h.asked.Load()))
	count("node_hedges_won_total", "Hedged calls that the second node answered first.",
		float64(h.won.Load()))
}

// hedgeDelay returns how long a node may stay silent before another node is queried, too: soon
// while the hedging limit allows it, late in any case.
func (h *hedging) hedgeDelay(u *latencyHistogram) (soon, late time.Duration) {
	took, known := u.p95()
	if !known {
		return min(firstHedgeDelay, h.silence), h.silence
	}
	return max(took, minHedgeDelay), max(4*took, h.silence)
}
