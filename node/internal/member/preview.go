package member

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/sdk/api"
)

// preview puts what the planner sees into words; bytes are those of groups.
func preview(
	v *cluster.View, o cluster.Outlook, bytes map[cluster.GroupID]int64,
) api.ClusterPreview {
	p := api.ClusterPreview{Changes: []api.ClusterChange{}, Running: []api.ClusterChange{},
		Notes: []string{}, Blocked: o.Blocked,
		Copies:      cmp.Or(v.Limits.Copies, cluster.DefaultCopies),
		BytesPerSec: v.Limits.Rate()}
	if p.Blocked == nil {
		p.Blocked = []string{}
	}
	for _, c := range o.Changes {
		x := api.ClusterChange{Group: uint32(c.Group), Add: nodeText(c.Add), From: nodeText(c.From),
			Why: c.Why, Waits: c.Waits}
		if c.Add != 0 {
			x.Bytes = bytes[c.Group]
		}
		p.Bytes += x.Bytes
		p.Changes = append(p.Changes, x)
	}
	for _, plan := range o.Running {
		p.Running = append(p.Running, running(v, plan, bytes[plan.Group]))
	}
	for g, group := range v.Groups {
		if group.Splitting {
			p.Running = append(p.Running, api.ClusterChange{Group: uint32(g), Stage: api.StageSplit,
				Why:   fmt.Sprintf("it is split off group %d", group.Parent),
				Waits: "its copies begin"})
		}
	}
	return p
}

func nodeText(id cluster.NodeID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

// running says what a plan does.
func running(v *cluster.View, plan cluster.Plan, bytes int64) api.ClusterChange {
	x := api.ClusterChange{Group: uint32(plan.Group), Add: nodeText(plan.Add),
		Stage: plan.Stage.String()}
	for _, r := range v.Groups[plan.Group].Replicas {
		if r.ID == plan.Remove {
			x.From = nodeText(r.Node)
			n, _ := v.Node(r.Node)
			x.Why = fmt.Sprintf("in place of that on node %v, which is %v", r.Node, n.State)
		}
	}
	switch {
	case plan.Add == 0:
		x.Why = "one copy too many"
	case plan.Remove == 0:
		x.Why = "one copy more"
	}
	if x.Waits = "the group changes its members"; plan.Stage == cluster.StageAdd {
		x.Waits, x.Bytes = "the new copy catches up", bytes
	}
	return x
}

// noQuorum names the groups that have no leader and of which too few nodes answer, but for those
// that are named already. A group with a leader has a quorum, also if nodes did not answer in time.
func noQuorum(
	v *cluster.View, h *cluster.Health, said map[cluster.NodeID]nodeReports, named []string,
) (out []string) {
	for g := range v.Groups {
		if g < len(h.Groups) && h.Groups[g].Leader != 0 {
			continue
		}
		prefix := fmt.Sprintf("group %d: ", g)
		voters := v.Voters(cluster.GroupID(g))
		var silent []string
		for _, r := range voters {
			if x, asked := said[r.Node]; !asked || x.err != nil {
				silent = append(silent, r.Node.String())
			}
		}
		known := slices.ContainsFunc(named, func(text string) bool {
			return strings.HasPrefix(text, prefix)
		})
		if !known && 2*len(silent) >= len(voters) {
			out = append(out, fmt.Sprintf("%sit has no leader, and %d of its %d voters answer, "+
				"which is no quorum; start again %s", prefix, len(voters)-len(silent), len(voters),
				strings.Join(silent, " and ")))
		}
	}
	return out
}

// removalNotes says what an operator should know who lets a node go.
func removalNotes(before, after *cluster.View, n cluster.Node) []string {
	out := []string{}
	was, zones, nodes := upIn(before), upIn(after), 0
	for _, k := range zones {
		nodes += k
	}
	if len(zones) < len(was) && len(zones) < after.Replicas {
		out = append(out, fmt.Sprintf("node %v is the last of zone %q that is up: in %d zones, "+
			"copies of a group share one", n.ID, n.Zone, len(zones)))
	}
	if leaves := n.State == cluster.NodeDraining || n.State == cluster.NodeRemoving; leaves &&
		nodes < after.Replicas {
		out = append(out, fmt.Sprintf("%d copies of everything are left, in place of %d, until "+
			"another node joins", nodes, after.Replicas))
	}
	return out
}

// upIn counts the core nodes that are up, by their zones.
func upIn(v *cluster.View) map[string]int {
	zones := map[string]int{}
	for _, n := range v.Nodes {
		if n.Role == cluster.RoleCore && n.State == cluster.NodeUp {
			zones[n.Zone]++
		}
	}
	return zones
}
