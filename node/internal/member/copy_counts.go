package member

import (
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/sdk/api"
)

// countCopies counts the copies with a vote on nodes that gossip knows and does not take for dead,
// without those here that are not trusted. It asks no other node.
func (m *Member) countCopies(v *cluster.View) api.CopyCounts {
	dead := absent(v, m.self.ID, m.gossip.Load().Peers())
	out := api.CopyCounts{CopiesTarget: v.Replicas}
	for g := range v.Groups {
		copies := 0
		for _, r := range v.Voters(cluster.GroupID(g)) {
			wrong := r.Node == m.self.ID && m.distrust(cluster.GroupID(g)) != nil
			if !dead[r.Node] && !wrong {
				copies++
			}
		}
		if g == 0 || copies < out.CopiesFewest {
			out.CopiesFewest = copies
		}
		if copies < out.CopiesTarget {
			out.GroupsFewer++
		}
	}
	return out
}

// absent returns the nodes of a view that gossip takes for dead, or does not know: nodes that were
// down before this one was started. As long as none answers, gossip knows none of them yet.
func absent(v *cluster.View, self cluster.NodeID, all []cluster.Peer) map[cluster.NodeID]bool {
	out := unreached(all)
	joined := slices.ContainsFunc(all, func(p cluster.Peer) bool {
		return p.State == cluster.PeerAlive
	})
	for _, n := range v.Nodes {
		if _, known := out[n.ID]; joined && !known && n.ID != self {
			out[n.ID] = true
		}
	}
	return out
}

// fewerProblem names groups that have fewer copies than they should. The node is ready all the
// same: it answers, and what is acknowledged is on the disks of a majority of the copies there are.
func (m *Member) fewerProblem() []health.Problem {
	v := m.View()
	f := m.countCopies(v)
	if f.GroupsFewer == 0 {
		return nil
	}
	return []health.Problem{{Code: "few_copies", Message: fmt.Sprintf("%d of %d groups have fewer "+
		"copies than %d, the least has %d", f.GroupsFewer, len(v.Groups), f.CopiesTarget,
		f.CopiesFewest),
		Advice: "start the nodes that are down, or join more; remove one that has lost its " +
			"directory: pentad cluster remove NODE. pentad cluster status names them"}}
}
