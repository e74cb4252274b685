package member

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store/commands"
)

const (
	// planEvery is how often who leads the meta group compares what is with what should be.
	planEvery = 300 * time.Millisecond
	// closeEnough is how many entries a replica may lack to count as one that follows.
	closeEnough = 4096
	// closeEvery is how far the horizon of a group that rests may stay behind the clock; one that
	// has rested for long is closed as often as restEvery says. Both are counted from full seconds
	// of the clock: what all groups and nodes write at the same time takes one flush of each.
	closeEvery = 200 * time.Millisecond
	restEvery  = time.Second
	restAfter  = 10 * time.Second
	// noGroup is the group of a report that is of its node.
	noGroup = cluster.GroupID(math.MaxUint32)
)

// leaderReport is what a leader says of its group, or what a node says of a replica that it does
// not trust: then Broken alone is set. A node that may not lead says so in a report of noGroup,
// which nodes that do not know of such reports pass over.
type leaderReport struct {
	Group      cluster.GroupID     `json:"group"`
	MayNotLead bool                `json:"may_not_lead,omitempty"`
	Voters     []cluster.ReplicaID `json:"voters"`
	Live       []cluster.ReplicaID `json:"live"`
	CaughtUp   []cluster.ReplicaID `json:"caught_up"`
	Broken     []cluster.ReplicaID `json:"broken,omitempty"`
}

// reports says how the groups are that this node leads, and which replicas here are to be replaced.
func (m *Member) reports() []leaderReport {
	out := m.brokenReports()
	if !m.run.MayLead() {
		out = append(out, leaderReport{Group: noGroup, MayNotLead: true})
	}
	for group := range m.run.Groups() {
		st, err := m.run.Status(group)
		if err != nil || st.Leader == 0 || st.Leader != st.Replica {
			continue
		}
		r := leaderReport{Group: group}
		for _, x := range st.Members {
			id := cluster.ReplicaID(replica.Number(x.Replica))
			follows := x.Replica == st.Replica || x.Match > 0 && x.Match+closeEnough >= st.Last
			switch {
			case x.Learner && follows:
				r.CaughtUp = append(r.CaughtUp, id)
			case !x.Learner:
				r.Voters = append(r.Voters, id)
				if follows {
					r.Live = append(r.Live, id)
				}
			}
		}
		if st.Joint {
			continue // what its members are is not decided yet
		}
		out = append(out, r)
	}
	return out
}

// planWhileLeader plans for the cluster while this node leads the meta group.
func (m *Member) planWhileLeader() {
	tick := time.NewTicker(planEvery)
	defer tick.Stop()
	for round := uint64(0); ; round++ {
		select {
		case <-tick.C:
		case <-m.open.Done():
			return
		}
		st, err := m.run.Status(cluster.MetaGroup)
		if err != nil || st.Leader != st.Replica {
			m.mu.Lock()
			clear(m.silent)
			m.mu.Unlock()
			continue
		}
		v := m.View()
		if v.Cluster == (cluster.ID{}) {
			continue
		}
		options := cluster.PlanOptions{Round: round}
		for _, move := range cluster.NextMoves(v, m.Health(v), options).Moves {
			m.doMove(v, move)
		}
	}
}

// doMove does one move. What fails is planned again.
func (m *Member) doMove(v *cluster.View, move cluster.Move) {
	ctx, cancel := context.WithTimeout(m.open, askTimeout)
	defer cancel()
	if move.Command != nil {
		m.opt.Log.Info("the cluster changes", "group", move.Group, "why", move.Why)
		m.propose(move.Command)
		return
	}
	for _, r := range v.Voters(move.Group) {
		if r.Node != move.Transfer {
			continue
		}
		if move.Leader == m.self.ID && m.reached.isLeaderPinned(move.Group) {
			continue // others do not reach its next leader
		}
		if move.Leader == m.self.ID {
			m.run.TransferLeader(move.Group, replicaID(r))
		} else if n, ok := m.locate(move.Leader); ok {
			if err := m.askTransfer(ctx, n.HTTPAddr, move.Group, replicaID(r)); err != nil {
				m.opt.Log.Warn("move a leadership", "group", move.Group, "err", err)
			}
		}
	}
}

// Health asks every node how its groups are.
func (m *Member) Health(v *cluster.View) cluster.Health {
	h := cluster.Health{Nodes: map[cluster.NodeID]cluster.NodeHealth{},
		Groups: make([]cluster.GroupHealth, len(v.Groups))}
	var mu sync.Mutex
	said := map[cluster.NodeID][]leaderReport{m.self.ID: m.reports()}
	var wg sync.WaitGroup
	for _, n := range v.Nodes {
		if n.ID == m.self.ID || n.State == cluster.NodeLeft || n.Role != cluster.RoleCore {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(m.open, askTimeout/2)
			defer cancel()
			reports, err := m.askHealth(ctx, n.ID)
			m.mu.Lock()
			since, silent := m.silent[n.ID]
			switch {
			case err == nil:
				delete(m.silent, n.ID)
			case !silent:
				since = time.Now()
				m.silent[n.ID] = since
			}
			m.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				said[n.ID] = reports
			} else {
				h.Nodes[n.ID] = cluster.NodeHealth{Unreachable: max(1, time.Since(since))}
			}
		})
	}
	wg.Wait()
	heard := map[cluster.NodeID]bool{m.self.ID: true}
	for _, p := range m.gossip.Load().Peers() {
		heard[p.Meta.Node.ID] = p.State != cluster.PeerDead
	}
	for _, n := range v.Nodes { // gossip knows nothing of who died before this node was started
		if !heard[n.ID] {
			x := h.Nodes[n.ID]
			x.GossipDead = true
			h.Nodes[n.ID] = x
		}
	}
	groupHealth(v, &h, said)
	return h
}

// groupHealth fills in what nodes said of themselves and of groups.
func groupHealth(v *cluster.View, h *cluster.Health, said map[cluster.NodeID][]leaderReport) {
	for id, reports := range said {
		for _, r := range reports {
			if r.MayNotLead {
				x := h.Nodes[id]
				x.MayNotLead = true
				h.Nodes[id] = x
			}
			if int(r.Group) < len(h.Groups) {
				h.Groups[r.Group].Broken = append(h.Groups[r.Group].Broken, r.Broken...)
			}
		}
	}
	for id, reports := range said {
		for _, r := range reports {
			if int(r.Group) < len(h.Groups) && len(r.Broken) == 0 {
				broken := h.Groups[r.Group].Broken
				h.Groups[r.Group] = cluster.GroupHealth{Leader: id, Voters: r.Voters,
					Live: answering(v, h, r), CaughtUp: r.CaughtUp, Broken: broken}
			}
		}
	}
}

// answering leaves out replicas of nodes that are silent, as what they had they may still have had,
// and those that their nodes do not trust.
func answering(v *cluster.View, h *cluster.Health, r leaderReport) (out []cluster.ReplicaID) {
	nodes := map[cluster.ReplicaID]cluster.NodeID{}
	for _, x := range v.Groups[r.Group].Replicas {
		nodes[x.ID] = x.Node
	}
	for _, id := range r.Live {
		n := h.Nodes[nodes[id]]
		broken := slices.Contains(h.Groups[r.Group].Broken, id)
		if !n.GossipDead && n.Unreachable == 0 && !broken {
			out = append(out, id)
		}
	}
	return out
}

// closeGroups moves the horizons of the groups that this node leads, when nothing else does, and
// lets their retentions take their steps.
func (m *Member) closeGroups() {
	next := time.NewTimer(closeEvery)
	defer next.Stop()
	type last struct {
		index  uint64
		closes uint64 // of closeLoop, which make no group a busy one
		busyAt time.Time
		shutAt time.Time
	}
	all := map[cluster.GroupID]*last{}
	command := commands.AppendHorizon(nil)
	for {
		select {
		case <-next.C:
		case <-m.open.Done():
			return
		}
		now := time.Now()
		next.Reset(now.Truncate(closeEvery).Add(closeEvery).Sub(now))
		var wg sync.WaitGroup
		for group := range m.run.Groups() {
			st, err := m.run.Status(group)
			if group == cluster.MetaGroup || err != nil || st.Leader != st.Replica ||
				st.Leader == 0 {
				continue
			}
			l := all[group]
			if l == nil {
				l = &last{busyAt: now}
				all[group] = l
			}
			closes := m.closeRequests.count(group)
			if st.Last > l.index+1+closes-l.closes {
				l.busyAt = now
			}
			l.index, l.closes = st.Last, closes
			if now.Sub(l.busyAt) > restAfter &&
				now.Truncate(restEvery).Equal(l.shutAt.Truncate(restEvery)) {
				continue
			}
			l.shutAt = now
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(m.open, restEvery)
				defer cancel()
				_, _ = m.Here(ctx, group, command) // the next one says the same
				m.retain(ctx, group)
			})
		}
		wg.Wait()
	}
}

// retain lets the retentions of a group take the steps that are due.
func (m *Member) retain(ctx context.Context, group cluster.GroupID) {
	s := m.Store(group)
	if s == nil {
		return
	}
	if step, due := s.RetentionStep(m.clock.Read()); due {
		_, _ = m.Here(ctx, group, step) // as above
	}
}
