package replica

import (
	"time"

	"github.com/pentad-db/pentad/node/internal/clock"
)

// Clocks of nodes of a simulation. One of them at a time is wrong; all are compared as the owner of
// a Runtime does it. So no acq may be ahead of the time that it truly is.

// simSlack is how far an acq may be ahead of the true time: the bound of clocks, and as much again
// for those that agree with one another.
const simSlack = 2 * clock.DefaultMaxOffset

// simSteps are how far clocks step.
func simSteps() []time.Duration {
	const day = 24 * time.Hour
	return []time.Duration{600 * time.Millisecond, 3 * time.Second, 10 * time.Second, day,
		365 * day, 400 * day}
}

// simMachineClock is what the clock of a node reads.
type simMachineClock struct{ n *simNode }

func (m simMachineClock) Read() (wallNs, monotonicNs int64) {
	return m.n.clock(), int64(m.n.s.now - m.n.began)
}

func (m simMachineClock) SleptNs() int64     { return 0 }
func (m simMachineClock) Synchronized() bool { return m.n.synced }

// clock is what the wall clock of a node says.
func (n *simNode) clock() int64 { return n.s.truth() + int64(n.offset) }

// truth is what right clocks say.
func (s *simulation) truth() int64 { return int64(simEpoch + s.now) }

const simEpoch = 400_000 * time.Hour

// startClock begins the clock of a process.
func (n *simNode) startClock() {
	n.began = n.s.now - time.Duration(n.s.rng.IntN(1_000_000))
	n.time = clock.New(clock.Options{Machine: simMachineClock{n}})
	n.time.SetNodes(len(n.s.nodes))
	for _, m := range n.machines {
		n.time.Begin(m.last, 0)
	}
	n.compareClocks()
}

// compareClocks asks other nodes for their clocks, again and again.
func (n *simNode) compareClocks() {
	n.time.SetNodes(n.s.config.nodes)
	for _, other := range n.s.nodes {
		if other != n {
			n.tell(other.id, n.time.Ping())
		}
	}
	wait := time.Second
	if n.time.Judge() == clock.Unknown && !n.time.MayLead() {
		wait = 100 * time.Millisecond
	}
	n.after(wait, n.compareClocks)
}

// tell sends a note, as Runtime does.
func (n *simNode) tell(to uint64, note []byte) {
	s := n.s
	if s.rng.Float64() < s.config.loss {
		return
	}
	s.after(time.Duration(200+s.rng.IntN(s.config.latency))*time.Microsecond, func() {
		other := s.nodes[to-1]
		if other.core == nil || s.cut[[2]uint64{n.id, to}] {
			return
		}
		other.after(0, func() {
			if answer := other.time.Hear(n.id, note); answer != nil {
				other.tell(n.id, answer)
			}
		})
	})
}

// stepClock makes the clock of a node wrong, and all others right.
func (s *simulation) stepClock(n *simNode) {
	s.counts["clock jumps"]++
	for _, other := range s.nodes {
		other.offset = 0
	}
	all := simSteps()
	n.offset = all[s.rng.IntN(len(all))]
	if s.rng.IntN(2) == 0 {
		n.offset = -n.offset
	}
	n.synced = s.rng.IntN(2) == 0 // a kernel may err, too
}

// stamp returns what a node begins acqs with.
func (n *simNode) stamp() (ns int64, ok bool) {
	if n.s.bug == bugOwnClock {
		return n.clock(), true
	}
	return n.time.Stamp()
}

// checkAcq checks an acq that was given.
func (s *simulation) checkAcq(group GroupID, acq int64) {
	if ahead := time.Duration(acq - s.truth()); ahead > simSlack {
		s.violated("group %d: an acq is %v ahead of the time", group, ahead)
	}
}
