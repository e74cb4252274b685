package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) clusterNodesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "Show all that is known of the nodes of the cluster",
		Long: `Show all that is known of the nodes of the cluster, those that have left included. State is what
the cluster has decided: joining, up, draining, removing or left. Gossip and error are of the node
that is asked: what it hears of the others, and why one did not answer it now. Levels are the
feature levels that the node's program runs.`,
		Args:    noCommand,
		Example: "  pentad cluster nodes\n  pentad cluster nodes -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			return listFrom(c.Context(), a, (*client.Client).ClusterNodes, []output.Column{
				left("node"), left("state"), left("gossip"), left("role"), left("zone"),
				left("http"), left("raft"), left("gossip_addr"), right("replicas"),
				right("leads"), right("bytes"), right("weight"), right("starts"),
				left("levels"), left("program"), left("error")}, nodeRow)
		},
	}
}

func nodeRow(n client.ClusterNode) []output.Value {
	return []output.Value{output.Text(n.ID), output.Text(n.State), someText(n.Gossip),
		output.Text(n.Role), someText(n.Zone), output.Text(n.HTTP), output.Text(n.Raft),
		someText(n.GossipAddr), output.Int(n.Replicas), output.Int(n.Leads),
		output.Bytes(n.Bytes), output.Int(n.Weight), output.Count(n.Starts),
		output.Text(fmt.Sprintf("%d-%d", n.MinFeature, n.MaxFeature)), someText(n.Program),
		someText(n.Error)}
}

func (a *app) clusterShardsCommand() *cobra.Command {
	var copies bool
	c := &cobra.Command{
		Use:   "shards",
		Short: "Show where records are: groups of slots, their copies, and what moves",
		Long: `Show where records are. Each group owns slots of the 16,384 and has copies on several nodes; group
0 has none, it keeps the state of the cluster. In the list of copies * marks who leads, + one that
still catches up and has no vote, and ! one that does not answer. Epoch is that of the cluster when
the copies last changed; the group is complete up to closed, which is lag behind the clock. Moves is
the change of the group that runs or comes next, why it is made, and what it waits for.

With --copies there is a row for each copy: the entries of the group's log that it has (last) and
shows (applied), and how far its horizon is behind that of the furthest copy.`,
		Args:    noCommand,
		Example: "  pentad cluster shards\n  pentad cluster shards --copies -o csv",
		RunE: func(c *cobra.Command, _ []string) error {
			if copies {
				return a.clusterCopies(c.Context())
			}
			return listFrom(c.Context(), a, (*client.Client).ClusterShards, []output.Column{
				right("group"), left("slots"), left("leader"), left("copies"), right("epoch"),
				left("closed"), right("lag"), right("bytes"), left("moves"), left("why"),
				left("waits")}, shardRow)
		},
	}
	c.Flags().BoolVar(&copies, "copies", false, "a row for each copy")
	return c
}

func shardRow(s client.ClusterShard) []output.Value {
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
		output.Text(strings.Join(copies, " ")), output.Count(s.Epoch), closed, lag,
		output.Bytes(s.Bytes), someText(s.Moves), someText(s.Why), someText(s.Waits)}
}

// shardCopy is a copy with its group.
type shardCopy struct {
	group int
	client.ClusterCopy
}

func (a *app) clusterCopies(ctx context.Context) error {
	return listFrom(ctx, a, func(db *client.Client, ctx context.Context) ([]shardCopy, error) {
		shards, err := db.ClusterShards(ctx)
		var out []shardCopy
		for _, s := range shards {
			for _, c := range s.Copies {
				out = append(out, shardCopy{s.Group, c})
			}
		}
		return out, err
	}, []output.Column{right("group"), left("node"), right("replica"), left("role"),
		right("applied"), right("last"), left("closed"), right("behind"), right("bytes"),
		left("error")}, func(c shardCopy) []output.Value {
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
		return []output.Value{output.Int(c.group), output.Text(c.Node), output.Count(c.Replica),
			output.Text(role), output.Count(c.Applied), output.Count(c.Last), closed, behind,
			output.Bytes(c.Bytes), someText(c.Error)}
	})
}

// listFrom is list of a node whether it takes requests of others or not: one that has left its
// cluster does not, and is asked about it all the same.
func listFrom[T any](
	ctx context.Context, a *app, ask func(*client.Client, context.Context) ([]T, error),
	columns []output.Column, row func(T) []output.Value,
) error {
	db, err := client.New(a.addr)
	if err != nil {
		return err
	}
	defer db.Close()
	return write(ctx, a, db, ask, columns, row)
}
