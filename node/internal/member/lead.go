package member

import (
	"context"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
)

const (
	// planEvery is how often who leads the meta group compares what is with what should be.
	planEvery = 300 * time.Millisecond
	// closeEnough is how many entries a replica may lack to count as one that follows.
	closeEnough = 4096
	// closeEvery is how far the horizon of a group that rests may stay behind the clock; one that
	// has rested for long is closed as often as restEvery says.
	closeEvery = 200 * time.Millisecond
	restEvery  = time.Second
	restAfter  = 10 * time.Second
)

// leaderReport is what a leader says of its group.
type leaderReport struct {
	Group    uint32              `json:"group"`
	Voters   []cluster.ReplicaID `json:"voters"`
	Live     []cluster.ReplicaID `json:"live"`
	CaughtUp []cluster.ReplicaID `json:"caught_up"`
}

// reports says how the groups are that this node leads.
func (m *Member) reports() []leaderReport {
	out := []leaderReport{}
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

// lead plans for the cluster while this node leads the meta group.
func (m *Member) lead() {
	tick := time.NewTicker(planEvery)
	defer tick.Stop()
	for {
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
		for _, move := range cluster.NextMoves(v, m.Health(v), cluster.PlanOptions{}).Moves {
			m.act(v, move)
		}
	}
}

// act does one move. What fails is planned anew.
func (m *Member) act(v *cluster.View, move cluster.Move) {
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
		leader := m.Leader(move.Group)
		if leader == m.self.ID {
			m.run.TransferLeader(move.Group, replicaID(r))
		} else if n, ok := m.locate(leader); ok {
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
		heard[p.Card.Node.ID] = p.State != cluster.PeerDead
	}
	for _, n := range v.Nodes { // gossip knows nothing of who died before this node was started
		if !heard[n.ID] {
			x := h.Nodes[n.ID]
			x.GossipDead = true
			h.Nodes[n.ID] = x
		}
	}
	for id, reports := range said {
		for _, r := range reports {
			if int(r.Group) < len(h.Groups) {
				h.Groups[r.Group] = cluster.GroupHealth{Leader: id, Voters: r.Voters,
					Live: answering(v, h, r), CaughtUp: r.CaughtUp}
			}
		}
	}
	return h
}

// answering leaves out replicas of nodes that are silent: what they had they may still have had.
func answering(v *cluster.View, h cluster.Health, r leaderReport) (out []cluster.ReplicaID) {
	nodes := map[cluster.ReplicaID]cluster.NodeID{}
	for _, x := range v.Groups[r.Group].Replicas {
		nodes[x.ID] = x.Node
	}
	for _, id := range r.Live {
		n := h.Nodes[nodes[id]]
		if !n.GossipDead && n.Unreachable == 0 {
			out = append(out, id)
		}
	}
	return out
}

// closeGroups moves the horizons of the groups that this node leads, when nothing else does, and
// lets their retentions take their steps.
func (m *Member) closeGroups() {
	tick := time.NewTicker(closeEvery)
	defer tick.Stop()
	type last struct {
		index  uint64
		busyAt time.Time
		shutAt time.Time
	}
	all := map[uint32]*last{}
	command := store.AppendClose(nil)
	for {
		select {
		case <-tick.C:
		case <-m.open.Done():
			return
		}
		var wg sync.WaitGroup
		for group := range m.run.Groups() {
			st, err := m.run.Status(group)
			if group == cluster.MetaGroup || err != nil || st.Leader != st.Replica ||
				st.Leader == 0 {
				continue
			}
			l := all[group]
			if l == nil {
				l = &last{busyAt: time.Now()}
				all[group] = l
			}
			if st.Last > l.index+1 {
				l.busyAt = time.Now()
			}
			l.index = st.Last
			if time.Since(l.busyAt) > restAfter && time.Since(l.shutAt) < restEvery {
				continue
			}
			l.shutAt = time.Now()
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
func (m *Member) retain(ctx context.Context, group uint32) {
	s := m.Store(group)
	if s != nil && s.RetentionDue(time.Now().UnixNano()) {
		_, _ = m.Here(ctx, group, store.AppendRetentionStep(nil)) // as above
	}
}
