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
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) clusterCommand() *cobra.Command {
	return cli.Group("cluster", "Manage a cluster",
		`  pentad cluster init token
  pentad serve --dir a --cluster-token token --cluster-init
  pentad cluster status`, a.clusterInitCommand(), a.clusterStatusCommand(),
		a.clusterNodesCommand(), a.clusterGroupsCommand(), a.clusterJoinCommand(),
		a.clusterDrainCommand(), a.clusterUndrainCommand(), a.clusterRemoveCommand(),
		a.clusterRebalanceCommand(), a.clusterSplitCommand(), a.clusterRaiseCommand())
}

func (a *app) clusterInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init FILE",
		Short: "Create the token file of a new cluster",
		Long: `Create the token file of a new cluster; the file must not exist. Each node of the cluster needs a
copy. A client with the token can join and read everything.`,
		Args:    cli.Arguments(1, 1, "a file"),
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
		return fmt.Errorf("write token: %w", err)
	}
	_, err = fmt.Fprintln(f, token.Text())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	a.Note("the first node, with the data that --dir has: pentad serve --dir DIR --cluster-token " +
		name + " --cluster-init")
	return nil
}

func (a *app) clusterStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of the cluster",
		Long: `Show the nodes of the cluster as seen by the node at --addr: the decision of the cluster (state),
what gossip reports (gossip), and how many groups each node holds and leads. Clock_ahead is how far
the clock of the node is ahead of the clock of the node at --addr, empty if there was no recent
report; clock_off means that other nodes contradict it. Scrub_percent is the progress of the current
scrub, and scrubbed is when all replicas had last been read completely; both are empty if scrubbing
is off. Pending moves and blockers are reported on stderr; pentad cluster groups shows them for each
group.`,
		Args:    cli.NoCommand,
		Example: "  pentad cluster status\n  pentad cluster status -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			return cli.ListFrom(c.Context(), a.App, a.clusterStatus,
				[]output.Column{cli.Left("node"), cli.Left("state"), cli.Left("gossip"),
					cli.Left("zone"), cli.Left("http"), cli.Right("replicas"), cli.Right("leads"),
					cli.Right("clock_ahead"), cli.Left("clock_off"), cli.Right("scrub_percent"),
					cli.Left("scrubbed")}, statusRow)
		},
	}
}

func statusRow(n api.NodeStatus) []output.Value {
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
) ([]api.NodeStatus, error) {
	all, err := db.Cluster(ctx)
	if all.Changes+len(all.Running) > 0 {
		a.Note("%d moves are running, %d are pending", len(all.Running),
			all.Changes)
	}
	for _, text := range all.Blocked {
		a.Note("blocked: %s", text)
	}
	if all.Raisable > all.Feature {
		a.Note("all nodes support feature level %d, the cluster is at %d; pentad cluster raise "+
			"raises it, after which older versions of pentad cannot run", all.Raisable, all.Feature)
	}
	if all.GroupsFewer > 0 {
		a.Note("%d groups have fewer than %d copies; the lowest number is %d", all.GroupsFewer,
			all.CopiesTarget, all.CopiesFewest)
	}
	return all.Nodes, err
}

// clusterFlags are those of serve that make a node one of a cluster.
type clusterFlags struct{ cluster.Config }

func (f *clusterFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.TokenFile, "cluster-token", "",
		"file with the token of the cluster to join or start; see pentad cluster init")
	flags.BoolVar(&f.Init, "cluster-init", false,
		"start a new cluster with this node;\nit takes over the data of a stand-alone node in "+
			"--dir")
	flags.BoolVar(&f.TrustCopy, "cluster-trust-copy", false,
		"start from a copied or restored directory without asking other nodes")
	flags.StringArrayVar(&f.Join, "join", nil,
		"gossip address of a node of the cluster, HOST[:PORT]; may be repeated")
	flags.StringVar(&f.Bind, "gossip-listen", "", "address for gossip (default 127.0.0.1:5152)")
	flags.StringVar(&f.RaftBind, "raft-listen", "",
		"address for replication between nodes (default 127.0.0.1:5151)")
	flags.StringVar(&f.Advertise, "advertise", "",
		"host that other nodes use for this one (default: host of each address)")
	flags.StringVar(&f.Zone, "zone", "",
		"failure zone of this node, e.g. rack-1; copies are spread over zones")
	flags.IntVar(&f.Groups, "groups", 0,
		"number of groups of a new cluster, a power of two;\nonly with --cluster-init "+
			"(default 8)")
	flags.IntVar(&f.Weight, "weight", 0, "share of the data relative to other nodes (default 100)")
}

// options checks the flags; without a token there must be none.
func (f *clusterFlags) options(c *cobra.Command) (cluster.Config, error) {
	if f.TokenFile != "" {
		return f.Config, nil
	}
	for _, name := range []string{"cluster-init", "cluster-trust-copy", "join", "gossip-listen",
		"raft-listen", "advertise", "zone", "groups", "weight"} {
		if c.Flags().Changed(name) {
			return f.Config,
				cli.Usagef("--%s: only for a node of a cluster; add --cluster-token FILE", name)
		}
	}
	return f.Config, nil
}
