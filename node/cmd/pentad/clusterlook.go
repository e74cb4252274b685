package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) clusterNodesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes of the cluster in detail",
		Long: `List the nodes of the cluster in detail, including those that have left. State is the decision of
the cluster: joining, up, draining, removing or left. Gossip and error are seen by the node at
--addr: what gossip reports, and why a node did not answer. Levels are the feature levels that the
program of the node supports.`,
		Args:    cli.NoCommand,
		Example: "  pentad cluster nodes\n  pentad cluster nodes -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			return cli.ListFrom(c.Context(), a.App, (*client.Client).ClusterNodes, []output.Column{
				cli.Left("node"), cli.Left("state"), cli.Left("gossip"), cli.Left("role"),
				cli.Left("zone"), cli.Left("http"), cli.Left("raft"), cli.Left("gossip_addr"),
				cli.Right("replicas"),
				cli.Right("leads"), cli.Right("bytes"), cli.Right("weight"), cli.Right("starts"),
				cli.Left("levels"), cli.Left("program"), cli.Left("error")}, nodeRow)
		},
	}
}

func nodeRow(n api.ClusterNode) []output.Value {
	return []output.Value{output.Text(n.ID), output.Text(n.State), someText(n.Gossip),
		output.Text(n.Role), someText(n.Zone), output.Text(n.HTTP), output.Text(n.Raft),
		someText(n.GossipAddr), output.Int(n.Replicas), output.Int(n.Leads),
		output.Bytes(n.Bytes), output.Int(n.Weight), output.Count(n.Starts),
		output.Text(fmt.Sprintf("%d-%d", n.MinFeature, n.MaxFeature)), someText(n.Program),
		someText(n.Error)}
}

func (a *app) clusterGroupsCommand() *cobra.Command {
	var copies bool
	c := &cobra.Command{
		Use:   "groups",
		Short: "List the groups of a cluster, their copies and moves",
		Long: `List the groups of a cluster. Each owns some of the 16,384 slots and has copies on several nodes;
group 0 owns none, it holds the state of the cluster. In the list of copies * marks the leader, + a
copy that is catching up and has no vote, and ! one that does not answer. Epoch is the cluster epoch
in which the copies last changed. The group is complete up to closed, which is lag behind the clock.
Moves is the running or next change of the group, why is its reason, and waits is what blocks it.

--copies shows a row for each copy: the last entry of its log (last), the last entry it applied
(applied), and how far its horizon is behind that of the most advanced copy.`,
		Args:    cli.NoCommand,
		Example: "  pentad cluster groups\n  pentad cluster groups --copies -o csv",
		RunE: func(c *cobra.Command, _ []string) error {
			if copies {
				return a.clusterCopies(c.Context())
			}
			return cli.ListFrom(c.Context(), a.App, (*client.Client).ClusterGroups, []output.Column{
				cli.Right("group"), cli.Left("slots"), cli.Left("leader"), cli.Left("copies"),
				cli.Right("epoch"), cli.Left("closed"), cli.Right("lag"), cli.Right("bytes"),
				cli.Left("moves"), cli.Left("why"),
				cli.Left("waits")}, groupRow)
		},
	}
	c.Flags().BoolVar(&copies, "copies", false, "show a row for each copy")
	return c
}

func groupRow(s api.ClusterGroup) []output.Value {
	slots, closed, lag := output.Null(), output.Null(), output.Null()
	if s.Group > 0 {
		slots = output.Text(fmt.Sprintf("%d-%d", s.FromSlot, s.ToSlot-1))
	}
	if s.ClosedNs > 0 {
		closed, lag = output.Time(s.ClosedNs), output.Span(time.Duration(s.LagNs))
	}
	var copies []string
	for _, c := range s.Copies {
		mark := ""
		switch {
		case c.Error != "":
			mark = "!"
		case c.Learner:
			mark = "+"
		case c.Leads:
			mark = "*"
		}
		copies = append(copies, c.Node+mark)
	}
	return []output.Value{output.Int(s.Group), slots, someText(s.Leader),
		output.Text(strings.Join(copies, " ")), output.Int(s.Epoch), closed, lag,
		output.Bytes(s.Bytes), someText(s.Moves), someText(s.Why), someText(s.Waits)}
}

// groupCopy is a copy with its group.
type groupCopy struct {
	group uint32
	api.ClusterCopy
}

func (a *app) clusterCopies(ctx context.Context) error {
	return cli.ListFrom(ctx, a.App, func(db *client.Client, ctx context.Context) ([]groupCopy,
		error) {
		groups, err := db.ClusterGroups(ctx)
		var out []groupCopy
		for _, s := range groups {
			for _, c := range s.Copies {
				out = append(out, groupCopy{s.Group, c})
			}
		}
		return out, err
	}, []output.Column{cli.Right("group"), cli.Left("node"), cli.Right("replica"), cli.Left("role"),
		cli.Right("applied"), cli.Right("last"), cli.Left("closed"), cli.Right("behind"),
		cli.Right("bytes"), cli.Left("error")}, func(c groupCopy) []output.Value {
		role, closed, behind := "voter", output.Null(), output.Null()
		switch {
		case c.Learner:
			role = "learner"
		case c.Leads:
			role = "leader"
		}
		if c.ClosedNs > 0 {
			closed, behind = output.Time(c.ClosedNs), output.Span(time.Duration(c.BehindNs))
		}
		return []output.Value{output.Int(c.group), output.Text(c.Node), output.Int(c.Replica),
			output.Text(role), output.Count(c.Applied), output.Count(c.Last), closed, behind,
			output.Bytes(c.Bytes), someText(c.Error)}
	})
}
