package member

import (
	"context"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/sdk/api"
)

// Figures is what a node knows of itself and of its cluster, in numbers.
type Figures struct {
	Replicas      int   // here, that of the meta group included
	Leads         int   // groups that this node leads
	Leaderless    int   // groups of replicas here that know no leader
	Stopped       int   // replicas here that are damaged or have stopped
	EntriesBehind int64 // entries in the logs here that are not applied yet
	HorizonLagNs  int64 // of the replica here that is furthest behind; 0 where there is none
	Changes       int   // of groups, in progress
	Epoch         uint64
	api.CopyCounts
	LogBytes int64 // of the log that the replicas share
	Nodes    map[NodeKind]int
}

// NodeKind is how a node is.
type NodeKind struct{ State, Gossip string }

// Figures returns how this node is now, and how it sees its cluster. It asks no other node.
func (m *Member) Figures(ctx context.Context, nowNs int64) Figures {
	v := m.View()
	st := m.status(v)
	f := Figures{Changes: st.Plans, Epoch: st.Epoch, CopyCounts: st.CopyCounts,
		LogBytes: m.run.LogBytes(),
		Nodes:    map[NodeKind]int{}}
	for _, n := range st.Nodes {
		if n.State != cluster.NodeLeft.String() {
			f.Nodes[NodeKind{n.State, n.Gossip}]++
		}
	}
	stores := m.Stores()
	for group := range m.run.Groups() {
		f.Replicas++
		st, err := m.run.Status(group)
		switch {
		case err != nil || st.Err != nil || m.distrust(group) != nil:
			f.Stopped++
			continue
		case st.Leader == 0:
			f.Leaderless++
		case st.Leader == st.Replica:
			f.Leads++
		}
		f.EntriesBehind += int64(st.Last - min(st.Applied, st.Last))
		if s := stores[group]; s != nil {
			horizonNs, err := s.ExtendHorizon(ctx)
			if err == nil && horizonNs > 0 && !s.IsCopy() { // a copy's stands still between runs
				f.HorizonLagNs = max(f.HorizonLagNs, nowNs-horizonNs)
			}
		}
	}
	return f
}
