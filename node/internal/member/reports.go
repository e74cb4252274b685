package member

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/sdk/api"
)

// RouteReplicas is what nodes ask each other for those who look at the cluster: GET, how the
// replicas of the node are.
const RouteReplicas = "/v1/cluster/replicas"

// replicaReport is what a node says of a replica that it holds.
type replicaReport struct {
	Group    cluster.GroupID   `json:"group"`
	Replica  cluster.ReplicaID `json:"replica"`
	Leads    bool              `json:"leads"`
	Applied  uint64            `json:"applied"`   // entries of the log
	Last     uint64            `json:"last"`      // entry that its log has
	ClosedNs int64             `json:"closed_ns"` // acq below which it has all; 0: unknown
	Bytes    int64             `json:"bytes"`     // of its files
	Error    string            `json:"error"`
	// Scrub is how far the search for damage is in its segments; nil where there is none.
	Scrub *api.ScrubProgress `json:"scrub,omitempty"`
}

// nodeReports is what a node said, or why it said nothing.
type nodeReports struct {
	replicas []replicaReport
	err      error
}

// replicaReports says how the replicas of this node are.
func (m *Member) replicaReports(ctx context.Context) []replicaReport {
	out := []replicaReport{}
	for group, id := range m.run.Groups() {
		r := replicaReport{Group: group, Replica: cluster.ReplicaID(replica.Number(id))}
		st, err := m.run.Status(group)
		if d := m.distrust(group); d != nil {
			err = d
		}
		if err = errors.Join(err, st.Err); err != nil {
			r.Error = err.Error()
		}
		r.Leads = st.Leader != 0 && st.Leader == st.Replica
		r.Applied, r.Last = st.Applied, st.Last
		m.mu.Lock()
		h := m.replicas[group]
		m.mu.Unlock()
		if h != nil && h.store != nil {
			s := h.store.Store()
			stats := s.Stats()
			r.Bytes = stats.SegmentBytes + stats.LogBytes
			// A store that is closed under the hands is on its way out.
			r.ClosedNs, _ = s.ExtendHorizon(ctx)
			if m.opt.Store.Scrub != nil && m.opt.Store.Scrub.Every() > 0 {
				r.Scrub = &api.ScrubProgress{Read: min(stats.ScrubPassBytes, stats.SegmentBytes),
					Bytes: stats.SegmentBytes, LastNs: stats.ScrubLastNs}
			}
		}
		out = append(out, r)
	}
	return out
}

// collectReports asks all nodes that have not left how their replicas are.
func (m *Member) collectReports(
	ctx context.Context, v *cluster.View,
) map[cluster.NodeID]nodeReports {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := map[cluster.NodeID]nodeReports{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range v.Nodes {
		if n.State == cluster.NodeLeft || n.Role != cluster.RoleCore {
			continue
		}
		wg.Go(func() {
			said := nodeReports{}
			if n.ID == m.self.ID {
				said.replicas = m.replicaReports(ctx)
			} else {
				said.replicas, said.err = m.askReplicas(ctx, n.ID)
			}
			mu.Lock()
			defer mu.Unlock()
			out[n.ID] = said
		})
	}
	wg.Wait()
	return out
}

func (m *Member) askReplicas(
	ctx context.Context, id cluster.NodeID,
) (out []replicaReport, err error) {
	n, ok := m.locate(id)
	if !ok {
		return nil, ErrUnavailable
	}
	text, err := m.ask(ctx, http.MethodGet, n.HTTPAddr, RouteReplicas+forNode(id), nil)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(text, &out)
}

// sizes returns how large the groups are: as their largest copies.
func sizes(all map[cluster.NodeID]nodeReports) map[cluster.GroupID]int64 {
	out := map[cluster.GroupID]int64{}
	for _, said := range all {
		for _, r := range said.replicas {
			out[r.Group] = max(out[r.Group], r.Bytes)
		}
	}
	return out
}

// Nodes says how all nodes are, those that have left included.
func (m *Member) Nodes(ctx context.Context) []api.ClusterNode {
	v := m.View()
	said := m.collectReports(ctx, v)
	gossip := map[cluster.NodeID]string{m.self.ID: m.gossip.Load().Addr()}
	for _, p := range m.gossip.Load().Peers() {
		gossip[p.Meta.Node.ID] = p.Addr
	}
	out := []api.ClusterNode{}
	for _, st := range m.status(v).Nodes {
		id, _ := cluster.ParseNodeID(st.ID) // status wrote it
		n, _ := v.Node(id)
		if n.ID == 0 { // an edge, which is in no view
			n, _ = m.locate(id)
		}
		x := api.ClusterNode{NodeStatus: st, Raft: n.RaftAddr, GossipAddr: gossip[n.ID],
			Starts: cluster.StartCount(n.Incarnation), MinFeature: n.MinFeature,
			MaxFeature: n.MaxFeature, Program: n.Program, Weight: n.Weight,
			DiskPercent: n.DiskPercent}
		if err := said[n.ID].err; err != nil {
			x.Error = err.Error()
		}
		for _, r := range said[n.ID].replicas {
			x.Bytes += r.Bytes
		}
		x.Scrub = scrubOf(said[n.ID].replicas)
		out = append(out, x)
	}
	return out
}

// Groups says how all groups are, and what is ahead of them as far as that is known.
func (m *Member) Groups(ctx context.Context) []api.ClusterGroup {
	v := m.View()
	said := m.collectReports(ctx, v)
	p, err := m.preview(ctx)
	out := make([]api.ClusterGroup, len(v.Groups))
	for i, group := range v.Groups {
		s, id := &out[i], cluster.GroupID(i)
		*s = api.ClusterGroup{Group: uint32(id), Epoch: group.Epoch, Leader: nodeText(m.Leader(id))}
		if id != cluster.MetaGroup {
			s.FromSlot, s.ToSlot = v.Span(id)
		}
		for _, r := range group.Replicas {
			s.Copies = append(s.Copies, copyOf(id, r, said[r.Node]))
		}
		sumCopies(s, m.clock.NowNs())
		if err != nil {
			s.Waits = "what is ahead is not known: " + err.Error()
		}
	}
	for _, c := range append(p.Changes, p.Running...) { // what runs is said last
		if int(c.Group) < len(out) {
			out[c.Group].Moves, out[c.Group].Why, out[c.Group].Waits = c.String(), c.Why, c.Waits
		}
	}
	return out
}

// copyOf finds a replica in what its node says.
func copyOf(group cluster.GroupID, r cluster.Replica, said nodeReports) api.ClusterCopy {
	c := api.ClusterCopy{Node: r.Node.String(), Replica: uint64(r.ID), Learner: r.Learner,
		Error: "its node does not have it"}
	if said.err != nil {
		c.Error = said.err.Error()
	}
	for _, x := range said.replicas {
		if x.Group == group && x.Replica == r.ID {
			c.Leads, c.Applied, c.Last, c.ClosedNs = x.Leads, x.Applied, x.Last, x.ClosedNs
			c.Bytes, c.Error = x.Bytes, x.Error
		}
	}
	return c
}

// sumCopies works out what of a group follows from its copies.
func sumCopies(s *api.ClusterGroup, nowNs int64) {
	for _, c := range s.Copies {
		s.ClosedNs, s.Bytes = max(s.ClosedNs, c.ClosedNs), max(s.Bytes, c.Bytes)
		if c.Leads {
			s.Leader = c.Node
		}
	}
	if s.ClosedNs > 0 {
		s.LagNs = max(0, nowNs-s.ClosedNs)
	}
	for i := range s.Copies {
		if c := &s.Copies[i]; c.ClosedNs > 0 {
			c.BehindNs = s.ClosedNs - c.ClosedNs
		}
	}
}
