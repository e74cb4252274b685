package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) clusterCommand() *cobra.Command {
	return group("cluster", "Make a cluster, look at it, and let nodes come and go",
		`  pentad cluster init token
  pentad serve --dir a --cluster-token token --cluster-init
  pentad cluster status`, a.clusterInitCommand(), a.clusterStatusCommand(),
		a.clusterNodesCommand(), a.clusterShardsCommand(), a.clusterJoinCommand(),
		a.clusterDrainCommand(), a.clusterUndrainCommand(), a.clusterRemoveCommand(),
		a.clusterRebalanceCommand(), a.clusterSplitCommand(), a.clusterRaiseCommand())
}

func (a *app) clusterInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init FILE",
		Short: "Write the token of a new cluster",
		Long: `Write the token of a new cluster to a file, which must not be there. Each node of the
cluster needs a copy; whoever has it can join and read everything.`,
		Args:    arguments(1, 1, "a file"),
		Example: "  pentad cluster init token",
		RunE:    func(_ *cobra.Command, args []string) error { return a.clusterInit(args[0]) },
	}
}

func (a *app) clusterInit(name string) error {
	token, err := cluster.NewToken(rand.Reader)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	_, err = fmt.Fprintln(f, token.Text())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	a.note("the first node, with the data that --dir has: pentad serve --dir DIR --cluster-token " +
		name + " --cluster-init")
	return nil
}

func (a *app) clusterStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of the cluster",
		Long: `Show the nodes of the cluster as one of them knows them: what the cluster has decided
about each (state), whether the node that is asked hears of it (gossip), and how many groups it
holds and leads. Clock_ahead is how far the node's clock is ahead of that of the node that is asked,
empty when it was not heard of lately; clock_off says that others contradict it. Scrub_percent is
how far the node's search for damage is in its present pass, and scrubbed when all its replicas
had last been read whole; they are empty when nothing is searched. On stderr it says what moves, and
what is in the way: pentad cluster shards shows that for each group.`,
		Args:    noCommand,
		Example: "  pentad cluster status\n  pentad cluster status -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			return listFrom(c.Context(), a, a.clusterStatus, []output.Column{left("node"),
				left("state"), left("gossip"), left("zone"), left("http"), right("replicas"),
				right("leads"), right("clock_ahead"), left("clock_off"),
				right("scrub_percent"), left("scrubbed")}, statusRow)
		},
	}
}

func statusRow(n client.ClusterNode) []output.Value {
	ahead, off, percent, scrubbed := output.Null(), output.Null(), output.Null(), output.Null()
	if n.ClockAheadNs != nil {
		ahead = output.Span(time.Duration(*n.ClockAheadNs))
	}
	if n.ClockOff {
		off = output.Bool(true)
	}
	if s := n.Scrub; s != nil {
		percent = output.Computed(100 * float64(s.Read) / float64(max(s.Bytes, 1)))
		if s.LastNs > 0 {
			scrubbed = output.Time(s.LastNs)
		}
	}
	return []output.Value{output.Text(n.ID), output.Text(n.State), output.Text(n.Gossip),
		output.Text(n.Zone), output.Text(n.HTTP), output.Int(n.Replicas), output.Int(n.Leads),
		ahead, off, percent, scrubbed}
}

// clusterStatus returns the nodes, and notes what moves.
func (a *app) clusterStatus(
	db *client.Client, ctx context.Context,
) ([]client.ClusterNode, error) {
	all, err := db.Cluster(ctx)
	if all.Changes+len(all.Running) > 0 {
		a.note("%d changes of groups are under way, %d are left to begin", len(all.Running),
			all.Changes)
	}
	for _, text := range all.Blocked {
		a.note("blocked: %s", text)
	}
	if all.Raisable > all.Feature {
		a.note("all nodes run feature level %d, the cluster is at %d; raise it with pentad "+
			"cluster raise, after which older versions of pentad cannot be run", all.Raisable,
			all.Feature)
	}
	if all.GroupsFewer > 0 {
		a.note("%d groups have fewer copies than %d; the least has %d", all.GroupsFewer,
			all.CopiesTarget, all.CopiesFewest)
	}
	return all.Nodes, err
}

// clusterFlags are those of serve that make a node one of a cluster.
type clusterFlags struct{ cluster.Config }

func (f *clusterFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.TokenFile, "cluster-token", "",
		"file with the token of a cluster, see pentad cluster init;\nmakes the node one of it")
	flags.BoolVar(&f.Init, "cluster-init", false, "this is the first node, which makes the "+
		"cluster; the data of\na stand-alone node in --dir become those of the cluster")
	flags.BoolVar(&f.TrustCopy, "cluster-trust-copy", false,
		"use a copied or restored directory without the word of the other nodes")
	flags.StringArrayVar(&f.Join, "join", nil,
		"host[:port] of the gossip of a node of the cluster; may be repeated")
	flags.StringVar(&f.Bind, "gossip-listen", "", "address of gossip (default 127.0.0.1:5152)")
	flags.StringVar(&f.RaftBind, "raft-listen", "",
		"address at which groups talk to each other (default 127.0.0.1:5151)")
	flags.StringVar(&f.Advertise, "advertise", "",
		"host that other nodes reach this one at (default that of the addresses)")
	flags.StringVar(&f.Zone, "zone", "", "name that nodes share which may fail together")
	flags.IntVar(&f.Groups, "groups", 0,
		"groups of a new cluster, a power of two; with --cluster-init (default 8)")
	flags.IntVar(&f.Weight, "weight", 0, "part of the data beside other nodes (default 100)")
}

// options checks the flags; without a token there must be none.
func (f *clusterFlags) options(c *cobra.Command) (cluster.Config, error) {
	if f.TokenFile != "" {
		return f.Config, nil
	}
	for _, name := range []string{"cluster-init", "cluster-trust-copy", "join", "gossip-listen",
		"raft-listen", "advertise", "zone", "groups", "weight"} {
		if c.Flags().Changed(name) {
			return f.Config, usagef("--%s is of a cluster; add --cluster-token FILE", name)
		}
	}
	return f.Config, nil
}
