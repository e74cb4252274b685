package member

import (
	"context"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/sdk/api"
)

// Overview returns what this node knows of its cluster, and what who leads it sees ahead.
func (m *Member) Overview(ctx context.Context) api.Cluster {
	var said map[cluster.NodeID]nodeReports
	var asking sync.WaitGroup
	asking.Go(func() { said = m.collectReports(ctx, m.View()) })
	p, err := m.preview(ctx)
	asking.Wait()
	out := api.Cluster{ClusterStatus: m.Status(), Changes: len(p.Changes), Running: p.Running,
		Blocked: p.Blocked, Copies: p.Copies, BytesPerSec: p.BytesPerSec}
	for i := range out.Nodes {
		id, _ := cluster.ParseNodeID(out.Nodes[i].ID) // status wrote it
		out.Nodes[i].Scrub = scrubOf(said[id].replicas)
	}
	if err != nil {
		out.Running = []api.ClusterChange{}
		out.Blocked = []string{"what is ahead is not known: " + err.Error()}
	}
	return out
}

// HasLeft reports whether the cluster has let this node go.
func (m *Member) HasLeft() bool {
	n, _ := m.View().Node(m.self.ID)
	return n.State == cluster.NodeLeft
}

// scrubOf adds up what a node says of its replicas; nil when none says anything.
func scrubOf(replicas []replicaReport) *api.ScrubProgress {
	var all *api.ScrubProgress
	for i := range replicas {
		switch one := replicas[i].Scrub; {
		case one == nil:
		case all == nil:
			all = new(*one)
		default:
			all.Read, all.Bytes = all.Read+one.Read, all.Bytes+one.Bytes
			all.LastNs = min(all.LastNs, one.LastNs)
		}
	}
	return all
}

// Status returns what this node knows of its cluster.
func (m *Member) Status() api.ClusterStatus { return m.status(m.View()) }

func (m *Member) status(v *cluster.View) api.ClusterStatus {
	out := api.ClusterStatus{Cluster: v.Cluster.String(), Epoch: v.Epoch, Node: m.self.ID.String(),
		Nodes: []api.NodeStatus{}, Groups: []api.GroupReplicas{}, Plans: len(v.Plans),
		Feature: v.Feature, Raisable: v.Raisable(), CopyCounts: m.countCopies(v)}
	seen := map[cluster.NodeID]string{m.self.ID: cluster.PeerAlive.String()}
	for _, p := range m.gossip.Load().Peers() {
		seen[p.Meta.Node.ID] = p.State.String()
	}
	held, leads := map[cluster.NodeID]int{}, map[cluster.NodeID]int{}
	for g := range v.Groups {
		group := cluster.GroupID(g)
		leader := m.Leader(group)
		leads[leader]++
		one := api.GroupReplicas{Group: uint32(group), Leader: leader.String(),
			Replicas: []api.ReplicaStatus{}}
		for _, r := range v.Groups[g].Replicas {
			held[r.Node]++
			one.Replicas = append(one.Replicas, api.ReplicaStatus{Node: r.Node.String(),
				Learner: r.Learner})
		}
		out.Groups = append(out.Groups, one)
	}
	clocks := m.clock.State()
	for _, n := range v.Nodes {
		out.Nodes = append(out.Nodes, api.NodeStatus{ID: n.ID.String(), State: n.State.String(),
			Gossip: seen[n.ID], Role: n.Role.String(), Zone: n.Zone, HTTP: n.HTTPAddr,
			Replicas: held[n.ID], Leads: leads[n.ID]})
		addClock(&out.Nodes[len(out.Nodes)-1], n.ID == m.self.ID, uint64(n.ID), &clocks)
	}
	for _, p := range m.gossip.Load().Peers() {
		// An edge is not in the state: it counts for nothing, and is seen while it is near.
		if n := p.Meta.Node; n.Role == cluster.RoleEdge {
			out.Nodes = append(out.Nodes, api.NodeStatus{ID: n.ID.String(), State: n.Role.String(),
				Gossip: p.State.String(), Role: n.Role.String(), Zone: n.Zone, HTTP: n.HTTPAddr})
		}
	}
	return out
}

// addClock adds what is known of the clock of a node.
func addClock(n *api.NodeStatus, self bool, id uint64, s *clock.State) {
	if self {
		n.ClockOff = s.Verdict == clock.Off || s.Verdict == clock.Odd ||
			s.Verdict == clock.Undecided
		return
	}
	for i := range s.Peers {
		if p := &s.Peers[i]; p.Node == id && p.AgoNs < int64(clockFresh) {
			n.ClockAheadNs, n.ClockOff = new(p.OffsetNs), p.Off
		}
	}
}

// Unreached returns the nodes that did not answer gossip when they were asked last.
func (m *Member) Unreached() map[cluster.NodeID]bool { return unreached(m.gossip.Load().Peers()) }

// unreached says of each node that gossip knows whether it did not answer when it was asked last.
func unreached(all []cluster.Peer) map[cluster.NodeID]bool {
	out, starts := map[cluster.NodeID]bool{}, map[cluster.NodeID]uint64{}
	for _, p := range all {
		n := p.Meta.Node
		if at, known := starts[n.ID]; !known || n.Incarnation > at {
			starts[n.ID], out[n.ID] = n.Incarnation, p.State != cluster.PeerAlive
		}
	}
	return out
}

// Addresses returns where clients find the nodes of the cluster.
func (m *Member) Addresses() []string {
	out := []string{}
	for _, n := range m.View().Nodes {
		if n.State != cluster.NodeLeft && n.HTTPAddr != "" {
			out = append(out, n.HTTPAddr)
		}
	}
	return out
}
