package member

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/replica"
)

// ErrUndecided means that a group cannot give acqs, as the clocks of its nodes differ and nothing
// says which of them is right.
var ErrUndecided = errors.New("the clocks of the nodes differ, and no majority of them says " +
	"which one is right; set the wrong one right, or start nodes that are down, and try again")

// ErrClock means that the clock of this node is wrong, as far as a majority of its cluster knows.
var ErrClock = errors.New("the clock of this machine differs from those of a majority of the " +
	"cluster; set it right, let a time service (chrony, ntpd, systemd-timesyncd) keep it, and " +
	"start the node again")

const (
	// pingEvery is how often other nodes are asked for their clocks. Until one has answered after a
	// start it is after pingFirst, and then twice as long each time up to pingLast: a node that
	// does not know the time does not lead.
	pingEvery = time.Second
	pingFirst = 50 * time.Millisecond
	pingLast  = 400 * time.Millisecond
	// clockFresh is how old an answer may be to be shown.
	clockFresh = 10 * time.Second
	// maxPinged bounds the nodes that are asked: those of the next higher ids.
	maxPinged = 16
	// oddFor is how long a node may be the odd one out before it ends: a clock that steps and is
	// corrected at once does not stop a node.
	oddFor = time.Minute
)

// setClock makes the clock by which this node leads groups.
func (m *Member) setClock() {
	switch {
	case m.opt.Now != nil:
		m.clock = clock.Of(m.opt.Now)
	case m.opt.Store.WallClock != nil:
		m.clock = m.opt.Store.WallClock
	default:
		m.clock = clock.New(clock.Options{})
	}
	if m.opt.Store.Now == nil {
		m.opt.Store.WallClock = m.clock
	}
}

// watchClock compares the clock with those of other nodes.
func (m *Member) watchClock() {
	next := time.NewTimer(0)
	defer next.Stop()
	failed, soon := false, pingFirst
	for {
		select {
		case <-next.C:
		case <-m.open.Done():
			return
		}
		wait := pingEvery
		if m.compareClocks() == clock.Unknown && !m.clock.MayLead() {
			wait, soon = soon, min(2*soon, pingLast)
		}
		next.Reset(wait)
		if err := clockError(m.clock.OddFor()); err != nil && !failed {
			failed = true // once; the process ends
			m.opt.Fail(err)
		}
	}
}

// clockError is ErrClock for a node that has been the odd one out for too long.
func clockError(odd time.Duration) error {
	if odd < oddFor {
		return nil
	}
	return fmt.Errorf("%w (it has been so for %v)", ErrClock, odd.Round(time.Second))
}

// compareClocks asks other nodes for their clocks, and judges by what they have said.
func (m *Member) compareClocks() clock.Verdict {
	for _, id := range m.countNodes(m.View()) {
		if ping := m.clock.Ping(); ping != nil {
			m.run.SendNote(uint64(id), ping)
		}
	}
	return m.clock.Judge()
}

// countNodes tells the clock how many nodes count, and returns those to ask. A node without a view
// is in no cluster yet.
func (m *Member) countNodes(v *cluster.View) []cluster.NodeID {
	nodes, asked := clockPeers(v, m.self.ID)
	if len(v.Nodes) == 0 {
		nodes = 0
	}
	m.clock.SetNodes(nodes)
	return asked
}

// clockPeers returns how many nodes a cluster has whose clocks count, this one included, and those
// that this one asks.
func clockPeers(v *cluster.View, self cluster.NodeID) (nodes int, asked []cluster.NodeID) {
	nodes = 1
	for _, n := range v.Nodes {
		if n.ID != self && n.Role == cluster.RoleCore && n.State != cluster.NodeLeft {
			nodes++
			asked = append(asked, n.ID)
		}
	}
	slices.SortFunc(asked, func(a, b cluster.NodeID) int { // those after this one first
		return cmp.Compare(a-self, b-self)
	})
	return min(nodes, maxPinged+1), asked[:min(len(asked), maxPinged)]
}

// stamp returns the time at which a command of a group that this node leads begins its acqs.
//
// Errors: ErrUndecided; a *replica.NotLeaderError without a leader, while no other node was heard
// of those whose votes the group needs: then another node is about to lead.
func (m *Member) stamp(group cluster.GroupID) (nowNs int64, err error) {
	now, ok := m.clock.Stamp()
	switch {
	case ok:
	case m.clock.Heard():
		return 0, fmt.Errorf("node %v: %w", m.self.ID, ErrUndecided)
	case !m.onlyVoter(group):
		return 0, fmt.Errorf("node %v hears no other clock: %w", m.self.ID,
			&replica.NotLeaderError{Group: group})
	}
	return now, nil
}

// onlyVoter reports whether the replica of a group here decides alone.
func (m *Member) onlyVoter(group cluster.GroupID) bool {
	st, err := m.run.Status(group)
	voters := 0
	for _, x := range st.Members {
		if !x.Learner {
			voters++
		}
	}
	return err == nil && voters == 1 && !st.Joint
}
