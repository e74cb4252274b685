package member

import (
	"context"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/clock"
)

// Status is what a node knows of its cluster, for people.
type Status struct {
	Cluster string        `json:"cluster"`
	Epoch   uint64        `json:"epoch"`
	Node    string        `json:"node"` // who says this
	Nodes   []NodeStatus  `json:"nodes"`
	Groups  []GroupStatus `json:"groups"`
	Plans   int           `json:"plans"` // changes of groups that are under way
	// Feature is the level of the cluster, Raisable that to which it can be raised: all nodes run
	// it.
	Feature  uint32 `json:"feature"`
	Raisable uint32 `json:"raisable"`
	Fullness
}

// Overview is a Status with what is ahead.
type Overview struct {
	Status
	Changes     int      `json:"changes"` // that are left to begin
	Running     []Change `json:"running"`
	Blocked     []string `json:"blocked"`
	Copies      uint32   `json:"copies"` // of Preview
	BytesPerSec int64    `json:"bytes_per_sec"`
}

// Overview returns what this node knows of its cluster, and what who leads it sees ahead.
func (m *Member) Overview(ctx context.Context) Overview {
	var said map[cluster.NodeID]nodeReports
	var asking sync.WaitGroup
	asking.Go(func() { said = m.collectReports(ctx, m.View()) })
	p, err := m.look(ctx)
	asking.Wait()
	out := Overview{Status: m.Status(), Changes: len(p.Changes), Running: p.Running,
		Blocked: p.Blocked, Copies: p.Copies, BytesPerSec: p.BytesPerSec}
	for i := range out.Nodes {
		id, _ := cluster.ParseNodeID(out.Nodes[i].ID) // status wrote it
		out.Nodes[i].Scrub = scrubOf(said[id].replicas)
	}
	if err != nil {
		out.Running = []Change{}
		out.Blocked = []string{"what is ahead is not known: " + err.Error()}
	}
	return out
}

// HasLeft reports whether the cluster has let this node go.
func (m *Member) HasLeft() bool {
	n, _ := m.View().Node(m.self.ID)
	return n.State == cluster.NodeLeft
}

// NodeStatus is of one node.
type NodeStatus struct {
	ID       string `json:"id"`
	State    string `json:"state"`
	Gossip   string `json:"gossip"` // what this node thinks of it
	Role     string `json:"role"`
	Zone     string `json:"zone"`
	HTTP     string `json:"http"`
	Replicas int    `json:"replicas"`
	Leads    int    `json:"leads"` // groups, as far as is known here
	// ClockAheadNs is how far its machine's clock is ahead of that of the node that says this; nil:
	// it was not heard of lately. ClockOff: it says that other nodes contradict its clock.
	ClockAheadNs *int64 `json:"clock_ahead_ns,omitempty"`
	ClockOff     bool   `json:"clock_off,omitempty"`
	// Scrub is how far the node's search for damage is; nil: there is none, or the node was not
	// asked or did not say. Status does not fill it in.
	Scrub *ScrubStatus `json:"scrub,omitempty"`
}

// ScrubStatus is how far the search for damage is in the segments of some replicas.
type ScrubStatus struct {
	Read   int64 `json:"read_bytes"` // in the present pass
	Bytes  int64 `json:"bytes"`      // that there are
	LastNs int64 `json:"last_ns"`    // when the last pass ended, of all the oldest; 0: some never
}

// scrubOf adds up what a node says of its replicas; nil when none says anything.
func scrubOf(replicas []replicaReport) *ScrubStatus {
	var all *ScrubStatus
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

// GroupStatus is of one group.
type GroupStatus struct {
	Group    cluster.GroupID `json:"group"`
	Leader   string          `json:"leader"`
	Replicas []ReplicaStatus `json:"replicas"`
}

// ReplicaStatus is of one replica.
type ReplicaStatus struct {
	Node    string `json:"node"`
	Learner bool   `json:"learner"`
}

// Status returns what this node knows of its cluster.
func (m *Member) Status() Status { return m.status(m.View()) }

func (m *Member) status(v *cluster.View) Status {
	out := Status{Cluster: v.Cluster.String(), Epoch: v.Epoch, Node: m.self.ID.String(),
		Nodes: []NodeStatus{}, Groups: []GroupStatus{}, Plans: len(v.Plans),
		Feature: v.Feature, Raisable: v.Raisable(), Fullness: m.fullness(v)}
	seen := map[cluster.NodeID]string{m.self.ID: cluster.PeerAlive.String()}
	for _, p := range m.gossip.Load().Peers() {
		seen[p.Meta.Node.ID] = p.State.String()
	}
	held, leads := map[cluster.NodeID]int{}, map[cluster.NodeID]int{}
	for g := range v.Groups {
		group := cluster.GroupID(g)
		leader := m.Leader(group)
		leads[leader]++
		one := GroupStatus{Group: group, Leader: leader.String(), Replicas: []ReplicaStatus{}}
		for _, r := range v.Groups[g].Replicas {
			held[r.Node]++
			one.Replicas = append(one.Replicas, ReplicaStatus{r.Node.String(), r.Learner})
		}
		out.Groups = append(out.Groups, one)
	}
	clocks := m.clock.State()
	for _, n := range v.Nodes {
		out.Nodes = append(out.Nodes, NodeStatus{ID: n.ID.String(), State: n.State.String(),
			Gossip: seen[n.ID], Role: n.Role.String(), Zone: n.Zone, HTTP: n.HTTPAddr,
			Replicas: held[n.ID], Leads: leads[n.ID]})
		out.Nodes[len(out.Nodes)-1].addClock(n.ID == m.self.ID, uint64(n.ID), &clocks)
	}
	for _, p := range m.gossip.Load().Peers() {
		// An edge is not in the state: it counts for nothing, and is seen while it is near.
		if n := p.Meta.Node; n.Role == cluster.RoleEdge {
			out.Nodes = append(out.Nodes, NodeStatus{ID: n.ID.String(), State: n.Role.String(),
				Gossip: p.State.String(), Role: n.Role.String(), Zone: n.Zone, HTTP: n.HTTPAddr})
		}
	}
	return out
}

// addClock adds what is known of the clock of a node.
func (n *NodeStatus) addClock(self bool, id uint64, s *clock.State) {
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
