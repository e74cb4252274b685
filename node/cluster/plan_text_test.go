package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// String says for people what is left to do, what runs, and what is in the way.
func (o Outlook) String() string {
	var b strings.Builder
	incoming := map[NodeID]int{}
	for _, c := range o.Changes {
		fmt.Fprintf(&b, "group %d: ", c.Group)
		if c.Add != 0 {
			incoming[c.Add]++
			fmt.Fprintf(&b, "a copy to node %v", c.Add)
		}
		if c.Remove != 0 && c.Add != 0 {
			b.WriteString(", then ")
		}
		if c.Remove != 0 {
			fmt.Fprintf(&b, "that on node %v goes", c.From)
		}
		fmt.Fprintf(&b, " (%s)\n", c.Why)
	}
	for _, plan := range o.Running {
		fmt.Fprintf(&b, "group %d: in progress, at stage %v\n", plan.Group, plan.Stage)
	}
	for _, text := range o.Blocked {
		fmt.Fprintf(&b, "blocked: %s\n", text)
	}
	fmt.Fprintf(&b, "%d changes to make, %d in progress", len(o.Changes), len(o.Running))
	for _, id := range slices.Sorted(maps.Keys(incoming)) {
		fmt.Fprintf(&b, "\nnode %v gets %d copies", id, incoming[id])
	}
	return b.String() + "\n"
}
