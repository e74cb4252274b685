package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/edge"
)

func (a *app) edgeCommand() *cobra.Command {
	return cli.Group("edge", "Manage edge nodes", `  pentad edge status`,
		a.edgeStatusCommand())
}

func (a *app) edgeStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the shipping state of an edge node",
		Long: `Show the shipping state of an edge node: waiting and shipped records, the last acknowledgement,
dropped records, records that upstream lost, and the last error of upstream.`,
		Args:    cli.NoCommand,
		Example: "  pentad edge status --addr 127.0.0.1:5350",
		RunE:    func(c *cobra.Command, _ []string) error { return a.edgeStatus(c.Context()) },
	}
}

func (a *app) edgeStatus(ctx context.Context) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := db.Edge(ctx)
	if err != nil {
		return err
	}
	timeOf := func(ns int64) output.Value {
		if ns == 0 {
			return output.Null()
		}
		return output.Time(ns)
	}
	return a.One([]output.Column{cli.Left("upstream"), cli.Right("waiting_bytes"),
		cli.Right("quota_bytes"), cli.Left("policy"), cli.Left("acked"),
		cli.Right("shipped_records"), cli.Right("dropped_records"), cli.Left("dropped"),
		cli.Left("upstream_lost"), cli.Right("again_records"), cli.Right("gone_records"),
		cli.Left("retry"), cli.Left("error"), cli.Left("edge")}, output.Text(s.Upstream),
		output.Int(s.WaitingBytes), output.Int(s.Quota), output.Text(s.Policy), timeOf(s.AckedNs),
		output.Int(s.Shipped), output.Int(s.Dropped), timeOf(s.DroppedNs), timeOf(s.LostNs),
		output.Int(s.AgainRecords), output.Int(s.GoneRecords), timeOf(s.RetryNs),
		output.Text(s.Error), output.Text(s.Edge))
}

// edgeFlags are those of serve that make a node an edge node.
type edgeFlags struct {
	role, full string
	upstream   []string
	keep       cli.DurationFlag
	quota      cli.SizeFlag
	rate       cli.SizeFlag
}

func (f *edgeFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.role, "role", "core",
		"role of the node: core, or edge, which ships records to --upstream")
	flags.StringSliceVar(&f.upstream, "upstream", nil,
		"core nodes that receive the records, HOST:PORT[,HOST:PORT...]")
	flags.Var(&f.quota, "edge-quota",
		"limit of records that wait to be shipped, e.g. 500MiB (default 1GiB)")
	flags.StringVar(&f.full, "edge-full", "block",
		"action at --edge-quota: block refuses puts, drop-oldest drops\nthe oldest records and "+
			"stores gap records")
	flags.Var(&f.keep, "edge-keep",
		"time that shipped records stay on this node, e.g. 30d (default 7d)")
	flags.Var(&f.rate, "edge-rate",
		"limit of shipped bytes per second, e.g. 64KiB (default: no limit)")
	cli.Complete(c, "role", "core", "edge\tships records to --upstream")
	cli.Complete(c, "edge-full", "block\trefuses puts", "drop-oldest")
}

// options checks the flags, of which a core node has none.
func (f *edgeFlags) options(c *cobra.Command, opt node.Options) (*edge.Options, error) {
	switch f.role {
	case "core":
		for _, name := range []string{"upstream", "edge-quota", "edge-full", "edge-keep",
			"edge-rate"} {
			if c.Flags().Changed(name) {
				return nil, cli.Usagef("--%s: only for an edge node; add --role edge", name)
			}
		}
		return nil, nil
	case "edge":
	default:
		return nil, cli.Usagef("--role %.80q: unknown; use core or edge", f.role)
	}
	policy, err := edge.ParsePolicy(f.full)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--edge-full: %w", err))
	}
	if len(f.upstream) == 0 && opt.Cluster.TokenFile == "" {
		return nil,
			cli.Usagef("--role edge: upstream unknown; give --upstream, or --cluster-token and " +
				"--join to find it by gossip")
	}
	return &edge.Options{Upstream: f.upstream, Cluster: opt.Cluster, Quota: int64(f.quota),
		Full: policy, Keep: time.Duration(f.keep), BytesPerSec: int64(f.rate)}, nil
}

// running is a node that serve has opened.
type running struct {
	*node.Node
	close func(context.Context) error
}

// Close ends the node, and what ships for it.
func (r running) Close(ctx context.Context) error { return r.close(ctx) }

// open opens a node, an edge node if there are options of one.
func open(ctx context.Context, opt node.Options, at *edge.Options) (running, error) {
	if at == nil {
		n, err := node.Open(ctx, opt)
		if err != nil {
			return running{}, err
		}
		return running{n, n.Close}, nil
	}
	opt.Cluster = cluster.Config{} // the edge's: its node is in none
	at.Node = opt
	e, err := edge.Open(ctx, *at)
	if err != nil {
		return running{}, err
	}
	return running{e.Node, e.Close}, nil
}
