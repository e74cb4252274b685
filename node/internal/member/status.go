package member

import "github.com/pentad-db/pentad/node/cluster"

// Status is what a node knows of its cluster, for people.
type Status struct {
	Cluster string        `json:"cluster"`
	Epoch   uint64        `json:"epoch"`
	Node    string        `json:"node"` // who says this
	Nodes   []NodeStatus  `json:"nodes"`
	Groups  []GroupStatus `json:"groups"`
	Plans   int           `json:"plans"` // changes of groups that are under way
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
}

// GroupStatus is of one group.
type GroupStatus struct {
	Group    uint32          `json:"group"`
	Leader   string          `json:"leader"`
	Replicas []ReplicaStatus `json:"replicas"`
}

// ReplicaStatus is of one replica.
type ReplicaStatus struct {
	Node    string `json:"node"`
	Learner bool   `json:"learner"`
}

// Status returns what this node knows of its cluster.
func (m *Member) Status() Status {
	v := m.View()
	out := Status{Cluster: v.Cluster.String(), Epoch: v.Epoch, Node: m.self.ID.String(),
		Nodes: []NodeStatus{}, Groups: []GroupStatus{}, Plans: len(v.Plans)}
	seen := map[cluster.NodeID]string{m.self.ID: cluster.PeerAlive.String()}
	for _, p := range m.gossip.Peers() {
		seen[p.Card.Node.ID] = p.State.String()
	}
	held, leads := map[cluster.NodeID]int{}, map[cluster.NodeID]int{}
	for g := range v.Groups {
		leader := m.Leader(uint32(g))
		leads[leader]++
		one := GroupStatus{Group: uint32(g), Leader: leader.String(), Replicas: []ReplicaStatus{}}
		for _, r := range v.Groups[g].Replicas {
			held[r.Node]++
			one.Replicas = append(one.Replicas, ReplicaStatus{r.Node.String(), r.Learner})
		}
		out.Groups = append(out.Groups, one)
	}
	for _, n := range v.Nodes {
		out.Nodes = append(out.Nodes, NodeStatus{ID: n.ID.String(), State: n.State.String(),
			Gossip: seen[n.ID], Role: n.Role.String(), Zone: n.Zone, HTTP: n.HTTPAddr,
			Replicas: held[n.ID], Leads: leads[n.ID]})
	}
	return out
}
