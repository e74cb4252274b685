package node

import (
	"time"

	"github.com/pentad-db/pentad/node/store"
)

// clockEvery is how often the clock is looked at.
const clockEvery = 10 * time.Second

// watchClock logs when the stamps of records part from the machine's clock, and when they are
// together again.
func (n *Node) watchClock() {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	var before store.ClockState
	for {
		now := n.store.Clock()
		n.logClock(before, now)
		before = now
		select {
		case <-tick.C:
		case <-n.open.Done():
			return
		}
	}
}

func (n *Node) logClock(before, now store.ClockState) {
	switch {
	case now.Leaps > before.Leaps:
		n.log.Warn("the clock leapt far ahead; acqs follow it when it has stayed there for ten "+
			"minutes", "ahead", time.Duration(now.LeaptNs))
	case before.LeaptNs > 0 && now.LeaptNs == 0:
		n.log.Warn("acqs follow the clock again")
	}
	switch {
	case before.AheadNs == 0 && now.AheadNs > 0:
		n.log.Warn("the clock was set back; acqs go on from where they were until it has passed "+
			"them", "behind", time.Duration(now.AheadNs))
	case before.AheadNs > 0 && now.AheadNs == 0:
		n.log.Info("the clock has passed the acqs that were given")
	}
}

// collectTime publishes the clock and those who follow it.
func (r rooms) collectTime(count, gauge func(name, help string, v float64)) {
	clock := r.node.store.Clock()
	gauge("store_clock_behind_seconds", "How far the clock is behind the acqs, as it was set back.",
		float64(clock.AheadNs)/1e9)
	gauge("store_clock_leapt_seconds", "How far the clock is ahead and not followed yet.",
		float64(clock.LeaptNs)/1e9)
	count("store_clock_leaps_total", "How often the clock leapt too far ahead to be followed.",
		float64(clock.Leaps))
	if r.node.server != nil {
		gauge("node_feeds", "Readers of changes that are connected.",
			float64(r.node.server.feeds.count()))
	}
}
