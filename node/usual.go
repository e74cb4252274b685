package node

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// hedgeShare is how many questions of a hundred may be asked of a second node because the first
	// is slower than usual. That many are, by definition; more would be load that makes all slower.
	hedgeShare = 0.05
	// hedgeBurst is how many of them may come at once: when a node stands still, some questions are
	// under way to it.
	hedgeBurst = 8
	// leastPatience is what a node may always take: pauses of a scheduler or a collector, after
	// which a second node would only have worked for nothing.
	leastPatience = 20 * time.Millisecond
	// firstPatience is for a node of which nobody knows yet what is usual.
	firstPatience = 200 * time.Millisecond
	// silence is what is unusual in any case; goneAfter, when gossip gets no answer either, what
	// nobody waits for any longer.
	silence   = time.Second
	goneAfter = 5 * time.Second
	// lostInTurn is how many questions a node must leave to others, without an answer to any in
	// between, to be asked no more for a while.
	lostInTurn = 3
)

// question is a kind of question, as each takes its own time.
type question int

const (
	askRows question = iota
	askCount
	askStates
	askDiff
	askVersions
	askDigest
	askPlan
	askFacts  // which are known without a look at records: horizons, events
	askChange // is no question but changes something, and is asked of nobody else
	questions
)

// hedging bounds the questions that are asked of a second node, and counts them.
type hedging struct {
	silence, goneAfter time.Duration

	mu   sync.Mutex
	debt float64 // guarded by mu: those of late, of which each question pays a part

	asked, won atomic.Int64
}

// earn is called for each question of another node.
func (h *hedging) earn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.debt = max(0, h.debt-hedgeShare)
}

// take reports whether one more may be asked of a second node.
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
		"Questions that were asked of a second node, as the first was silent.",
		float64(h.asked.Load()))
	count("node_hedges_won_total", "Of these, those that the second answered first.",
		float64(h.won.Load()))
}

const (
	// spans: two for each doubling of ns, up to over an hour.
	spans       = 84
	longestSpan = time.Hour
	// knownAfter is how many answers tell what is usual.
	knownAfter = 16
	// halvedAt lets what is usual follow the last few hundred answers.
	halvedAt = 512
)

// usual is how long a node took of late for one kind of question: how many answers took how long,
// of which older ones count less and less.
type usual struct {
	mu     sync.Mutex
	counts [spans]uint16 // guarded by mu
	sum    int           // guarded by mu: of counts
}

// spanOf returns the span that a time lies in.
func spanOf(d time.Duration) int {
	ns := uint64(min(max(d, 2), longestSpan))
	doublings := bits.Len64(ns) - 1
	return 2*doublings + int(ns>>(doublings-1)&1)
}

// endOfSpan returns the time with which the next span begins.
func endOfSpan(span int) time.Duration {
	return time.Duration(3+span%2) << (span / 2) >> 1
}

// add notes what an answer took, or how long it was waited for in vain.
func (u *usual) add(took time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts[spanOf(took)]++
	if u.sum++; u.sum < halvedAt {
		return
	}
	u.sum = 0
	for i := range u.counts {
		u.counts[i] /= 2
		u.sum += int(u.counts[i])
	}
}

// p95 returns what 19 of 20 answers took at most, when it is known.
func (u *usual) p95() (took time.Duration, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sum < knownAfter {
		return 0, false
	}
	longer := u.sum / 20
	span := spans - 1
	for ; int(u.counts[span]) <= longer; span-- {
		longer -= int(u.counts[span])
	}
	return endOfSpan(span), true
}

// patience returns how long a node may say nothing until another one is asked, too: soon as long as
// that is seldom, and late in any case.
func (h *hedging) patience(u *usual) (soon, late time.Duration) {
	took, known := u.p95()
	if !known {
		return min(firstPatience, h.silence), h.silence
	}
	return max(took, leastPatience), max(4*took, h.silence)
}
