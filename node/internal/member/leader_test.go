package member

import (
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
)

// A node whose disk stalls says so, so that nothing is planned that lets it lead more groups; what
// it says of those that it leads stays as it was.
func TestAStalledNodeSaysThatItMayNotLead(t *testing.T) {
	m := openOne(t)
	v := m.View()
	if r := m.reports(); len(r) != len(v.Groups) {
		t.Fatalf("a node that is well reports %+v of %d groups", r, len(v.Groups))
	}
	health := func(more ...leaderReport) cluster.Health {
		h := cluster.Health{Nodes: map[cluster.NodeID]cluster.NodeHealth{},
			Groups: make([]cluster.GroupHealth, len(v.Groups))}
		groupHealth(v, &h, map[cluster.NodeID][]leaderReport{
			m.self.ID: append(m.reports(), more...)})
		return h
	}
	well, stalls := health(), health(leaderReport{Group: noGroup, MayNotLead: true})
	if well.Nodes[m.self.ID].MayNotLead || !stalls.Nodes[m.self.ID].MayNotLead {
		t.Errorf("node %v: %+v when it is well, %+v when its disk stalls", m.self.ID, well.Nodes,
			stalls.Nodes)
	}
	for group, a := range well.Groups {
		if b := stalls.Groups[group]; a.Leader != m.self.ID || b.Leader != a.Leader ||
			len(a.Live) != 1 || len(b.Live) != 1 {
			t.Errorf("group %d: %+v when the node is well, %+v when its disk stalls", group, a, b)
		}
	}
}
