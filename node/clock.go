package node

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/prometheus/client_golang/prometheus"
)

// aheadNs is how far acqs may be ahead of the clock without a word: stamps of large batches.
const aheadNs = int64(10 * time.Second)

// clockProblems returns the problems of the clock, and of acqs ahead of it.
func (n *Node) clockProblems() []health.Problem {
	all := n.clock.Problems()
	if p, ok := aheadProblem("", n.store.AheadNs()); ok {
		all = append(all, p)
	}
	m := n.member.Load()
	if m == nil {
		return all
	}
	for group, s := range m.Stores() {
		if p, ok := aheadProblem(fmt.Sprintf("group %d", group), s.AheadNs()); ok {
			all = append(all, p)
		}
	}
	return all
}

// aheadProblem returns the problem of acqs in the future.
func aheadProblem(subject string, ns int64) (p health.Problem, ok bool) {
	if ns <= aheadNs {
		return p, false
	}
	ahead := time.Duration(ns).Round(time.Second)
	return health.Problem{Code: "acq_ahead", Subject: subject,
		Message: fmt.Sprintf("acqs are %v ahead of the clock, which was wrong before or is wrong "+
			"now: new records get acqs one by one from there on, in their order, and neither "+
			"acq ages nor the times of as-of views fit them; the clock passes them in %v", ahead,
			ahead),
		Advice: "compare the machine's clock with a time server; if it is right, wait, or copy " +
			"the data to a new node: pentad sync --restamp"}, true
}

// logClock logs that a step of the machine's clock is followed. That it has stepped is a problem.
func (n *Node) logClock() {
	s := n.clock.State()
	if s.Followed > n.clockFollowed {
		n.log.Warn("the machine's clock stepped, which is confirmed; acqs follow it")
	}
	n.clockFollowed = s.Followed
}

// collectTime publishes the metrics of the clock and of horizons.
func (r collector) collectTime(
	count, gauge func(name, help string, v float64), out chan<- prometheus.Metric,
) {
	s := r.node.clock.State()
	gauge("store_acq_ahead_seconds", "How far acqs are ahead of the clock, because it was set "+
		"back or was wrong.", float64(r.aheadNs())/1e9)
	gauge("clock_step_seconds", "How far the machine's clock is ahead of the time of new "+
		"acqs, below 0: behind it; 0: acqs follow the clock.", float64(s.StepNs)/1e9)
	count("clock_steps_total", "Steps of the machine's clock beyond --max-clock-offset.",
		float64(s.Steps))
	count("clock_steps_followed_total", "Steps that were confirmed and are followed.",
		float64(s.Followed))
	gauge("clock_confirmed", "1: other evidence confirms the machine's clock.",
		number(s.Confirmed))
	gauge("clock_synchronized", "1: the kernel reports a synchronized clock.",
		number(s.Synced))
	gauge("clock_off", "1: the clock differs from that of a majority; the node leads no groups.",
		number(s.Verdict == clock.Off || s.Verdict == clock.Odd))
	gauge("clock_undecided", "1: clocks of nodes differ without a majority; writes are rejected.",
		number(s.Verdict == clock.Undecided))
	label := []string{"node"}
	offset := prometheus.NewDesc("pentad_clock_peer_offset_seconds", "How far the clock of "+
		"another node is ahead of this one's.", label, nil)
	sure := prometheus.NewDesc("pentad_clock_peer_uncertainty_seconds", "How far that may be "+
		"wrong.", label, nil)
	for _, p := range s.Peers {
		id := cluster.NodeID(p.Node).String()
		out <- prometheus.MustNewConstMetric(offset, prometheus.GaugeValue,
			float64(p.OffsetNs)/1e9, id)
		out <- prometheus.MustNewConstMetric(sure, prometheus.GaugeValue,
			float64(p.UncertaintyNs)/1e9, id)
	}
	if r.node.server != nil {
		gauge("node_feeds", "Connected feeds.",
			float64(r.node.server.Feeds()))
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// aheadNs returns how far acqs of any store here are ahead of the clock.
func (r collector) aheadNs() int64 {
	ahead := r.node.store.AheadNs()
	if m := r.node.member.Load(); m != nil {
		for _, s := range m.Stores() {
			ahead = max(ahead, s.AheadNs())
		}
	}
	return ahead
}

// setClock makes the clock that all of the node follows.
func (n *Node) setClock() {
	now := n.opt.Store.Now
	switch {
	case now != nil:
		n.clock = clock.Of(now)
	case n.opt.Store.WallClock != nil:
		n.clock = n.opt.Store.WallClock
	default:
		n.clock = clock.New(clock.Options{MaxOffset: n.opt.MaxClockOffset})
		n.opt.Store.WallClock = n.clock
	}
}
