package clock

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/internal/health"
)

// Advice for clocks that are wrong.
const (
	adviceStep = "if the machine's clock is right now, wait, or let a time service (chrony, " +
		"ntpd, systemd-timesyncd) keep it; else set it right; records are stamped by the old " +
		"time meanwhile"
	adviceOff = "compare `date -u` on the nodes, set the clock of this one right and let a time " +
		"service (chrony, ntpd, systemd-timesyncd) keep it; the node leads no groups meanwhile"
	adviceUndecided = "compare `date -u` on the nodes and set the wrong clock right, or start " +
		"nodes that are down; writes are refused meanwhile, and queries are answered"
)

// Problems returns what is wrong with the clock.
func (c *Clock) Problems() (all []health.Problem) {
	s := c.State()
	if s.StepNs != 0 {
		until := "the other nodes agree with it"
		if s.WaitNs > 0 {
			until = fmt.Sprintf("the kernel says that it is synchronised, or it has stayed there "+
				"for another %s", span(s.WaitNs))
		}
		all = append(all, health.Problem{Code: "clock_stepped", Advice: adviceStep,
			Message: fmt.Sprintf("the machine's clock is %s what it was before or what the data "+
				"prove; it is not followed until %s", apart(s.StepNs), until)})
	}
	if s.Verdict == Undecided {
		return append(all, health.Problem{Code: "clock_undecided", Advice: adviceUndecided,
			Message: "the machine's clock differs by more than " +
				time.Duration(c.boundNs).String() + " from that of another node" +
				worst(s.Peers) + ", and no majority of the cluster has said which one is right"})
	}
	if s.Verdict != Off && s.Verdict != Odd {
		return all
	}
	p := health.Problem{Code: "clock_off", Advice: adviceOff, Message: "the machine's clock " +
		"differs by more than " + time.Duration(c.boundNs).String() + " from the time that a " +
		"majority of the cluster confirms" + worst(s.Peers)}
	if s.Verdict == Odd {
		p.Message += "; a majority of the cluster agree with one another, so this node will stop"
		p.NotReady = true
	}
	return append(all, p)
}

// apart says how far a clock is from another one.
func apart(ns int64) string {
	if ns < 0 {
		return span(-ns) + " behind"
	}
	return span(ns) + " ahead of"
}

// span is a duration as people say it.
func span(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= 2*24*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d > 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// worst says how far the clock of the node that is furthest away is.
func worst(peers []Peer) string {
	far := Peer{}
	for _, p := range peers {
		if p.AgoNs <= int64(heardFor) && !near(p.OffsetNs, 0, max(far.OffsetNs, -far.OffsetNs)) {
			far = p
		}
	}
	if far.OffsetNs == 0 {
		return ""
	}
	return fmt.Sprintf(" (that of node %016x is %s this one's)", far.Node, apart(far.OffsetNs))
}
