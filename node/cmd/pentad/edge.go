package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/edge"
)

func (a *app) edgeCommand() *cobra.Command {
	return group("edge", "Look at a node that ships what it takes", `  pentad edge status`,
		a.edgeStatusCommand())
}

func (a *app) edgeStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how far an edge node is with shipping",
		Long: `Show how far an edge node is with shipping: what waits, what went and when, what was
dropped, what upstream had taken and lost, and what it said last when it takes nothing.`,
		Args:    noCommand,
		Example: "  pentad edge status --addr 127.0.0.1:5350",
		RunE:    func(c *cobra.Command, _ []string) error { return a.edgeStatus(c.Context()) },
	}
}

func (a *app) edgeStatus(ctx context.Context) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := db.Edge(ctx)
	if err != nil {
		return err
	}
	moment := func(ns int64) output.Value {
		if ns == 0 {
			return output.Null()
		}
		return output.Time(ns)
	}
	return a.one([]output.Column{left("upstream"), right("waiting_bytes"), right("quota_bytes"),
		left("policy"), left("acked"), right("shipped_records"), right("dropped_records"),
		left("dropped"), left("upstream_lost"), right("again_records"), right("gone_records"),
		left("retry"), left("error"), left("edge")},
		output.Text(s.Upstream), output.Int(s.WaitingBytes), output.Int(s.Quota),
		output.Text(s.Policy), moment(s.AckedNs), output.Int(s.Shipped), output.Int(s.Dropped),
		moment(s.DroppedNs), moment(s.LostNs), output.Int(s.AgainRecords),
		output.Int(s.GoneRecords), moment(s.RetryNs), output.Text(s.Error), output.Text(s.Edge))
}

// edgeFlags are those of serve that make a node an edge node.
type edgeFlags struct {
	role, full string
	upstream   []string
	keep       durationFlag
	quota      sizeFlag
	rate       sizeFlag
}

func (f *edgeFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.role, "role", "core",
		"core, or edge: what the node takes is shipped to --upstream")
	flags.StringSliceVar(&f.upstream, "upstream", nil,
		"host:port of the core node, or of nodes of one cluster, with commas between")
	flags.Var(&f.quota, "edge-quota", "how much may wait to be shipped, as 500MiB (default 1GiB)")
	flags.StringVar(&f.full, "edge-full", "block",
		"what then: block refuses puts, drop-oldest leaves gap records")
	flags.Var(&f.keep, "edge-keep",
		"how long records stay here after they were shipped, as 30d (default 7d)")
	flags.Var(&f.rate, "edge-rate", "bytes to ship per second at most, as 64KiB (default: all)")
}

// options checks the flags, of which a core node has none.
func (f *edgeFlags) options(c *cobra.Command, opt node.Options) (*edge.Options, error) {
	switch f.role {
	case "core":
		for _, name := range []string{"upstream", "edge-quota", "edge-full", "edge-keep",
			"edge-rate"} {
			if c.Flags().Changed(name) {
				return nil, usagef("--%s is of an edge node; add --role edge", name)
			}
		}
		return nil, nil
	case "edge":
	default:
		return nil, usagef("--role %.80q: core or edge is wanted", f.role)
	}
	policy, err := edge.ParsePolicy(f.full)
	if err != nil {
		return nil, usageError{fmt.Errorf("--edge-full: %w", err)}
	}
	if len(f.upstream) == 0 && opt.Cluster.TokenFile == "" {
		return nil, usagef("--role edge needs --upstream, the node to ship to, or " +
			"--cluster-token and --join, to find it by gossip")
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

// sizeFlag reads numbers of bytes, as 64KiB.
type sizeFlag int64

func (s *sizeFlag) Set(text string) error {
	factor := int64(1)
	number := text
	for unit, by := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
		"TiB": 1 << 40} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			number, factor = rest, by
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/factor {
		return errors.New("a number of bytes above 0 is wanted, such as 65536, 64KiB or 20GiB")
	}
	*s = sizeFlag(n * factor)
	return nil
}

func (s *sizeFlag) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *sizeFlag) Type() string { return "bytes" }
