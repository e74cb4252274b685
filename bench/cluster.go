package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/node/cluster"
)

// clusterRun is one run of what clusters are measured by.
type clusterRun struct {
	out    io.Writer
	dir    string
	pentad string
	only   string

	commitRecords int
	mb            int
	seeds         int
	rows          int
	rounds        int
	groups        int
	idleFor       time.Duration
	rate          int
	feedFor       time.Duration
	slack         time.Duration

	work    string
	figures figure.List
}

func clusterCommand(out io.Writer) *cobra.Command {
	r := clusterRun{out: out}
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Measure clusters of processes on one machine, in turn with a single node",
		Long: `Measure how many records the replicas' log alone commits, in this process. Then start nodes as
processes of their own, with stores, gossip and TLS. Measure what a node and clusters of three take
while nothing is asked of them, and how long after its acknowledgement a batch comes to a follower
of a cluster's feed, while most of its groups are idle; how long groups take no writes when the disk
of their leader stands still (as root); how long a node that was away takes to catch up, and to
start with all of that. Put the same batches into a node, a cluster of one and a cluster of three in
turn, ask the first and the last the ten queries in turn, and kill -9 nodes of the cluster while
others are written to. Ask a node that holds no copies the ten queries, in turn with nodes that hold
all. And run the simulator.

All nodes share one machine, so absolute figures depend on what else it does. A bar that does not
hold is printed, and the exit code is 0: machines differ.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&r.only, "only", "", "parts to run, with commas between them: "+
		strings.Join(r.names(), ", "))
	f.IntVar(&r.commitRecords, "commit-records", 20_000_000,
		"how many to commit through replicas")
	f.IntVar(&r.mb, "mb", 1024, "MB that others store while a node is away")
	f.IntVar(&r.seeds, "seeds", 300, "runs of the simulator")
	f.IntVar(&r.rows, "rows", 2_000_000, "about how many records to put and ask")
	f.IntVar(&r.rounds, "rounds", 10, "how often to kill a node")
	f.IntVar(&r.groups, "groups", cluster.DefaultGroups,
		"groups of the cluster, a power of two from 4 on")
	f.DurationVar(&r.idleFor, "idle", time.Minute, "how long to watch nodes that are idle")
	f.IntVar(&r.rate, "rate", 100_000, "records a second while a feed is followed")
	f.DurationVar(&r.feedFor, "feed", 20*time.Second, "how long a feed is followed")
	f.DurationVar(&r.slack, "timer-slack", time.Millisecond, "of all nodes, see pentad serve")
	f.StringVar(&r.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.StringVar(&r.dir, "out", "out", "folder of cluster.json, and of the data while it runs")
	return c
}

func (c *clusterRun) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// part is one of the things that are measured.
type part struct {
	name string
	run  func(context.Context) error
}

func (c *clusterRun) parts() []part {
	return []part{{"commit", c.commit}, {"idle", c.idle}, {"feed", c.feed},
		{"freeze", c.freeze}, {"behind", c.behind}, {"nodes", c.nodes}, {"distant", c.distant},
		{"simulate", c.simulate}}
}

func (c *clusterRun) names() (out []string) {
	for _, p := range c.parts() {
		out = append(out, p.name)
	}
	return out
}

func (c *clusterRun) run(ctx context.Context) (err error) {
	wanted := c.names()
	if c.only != "" {
		wanted = strings.Split(c.only, ",")
	}
	for _, name := range wanted {
		if !slices.Contains(c.names(), name) {
			return fmt.Errorf("--only %q: there are %s", name, strings.Join(c.names(), ", "))
		}
	}
	if c.groups < 4 {
		return fmt.Errorf("--groups %d: take 4 at least, so that each node leads some", c.groups)
	}
	c.say("%s", machine())
	c.work = filepath.Join(c.dir, "work-cluster")
	if err := os.RemoveAll(c.work); err != nil {
		return err
	}
	if err := os.MkdirAll(c.work, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.work)) }()
	for _, p := range c.parts() {
		if !slices.Contains(wanted, p.name) {
			continue
		}
		began := time.Now()
		if err := p.run(ctx); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", p.name, err), c.figures.Table(c.out))
		}
		c.say("%s: %.0f s, load average %s", p.name, time.Since(began).Seconds(), loadAverage())
	}
	c.say("")
	if err := c.figures.Table(c.out); err != nil {
		return err
	}
	path := filepath.Join(c.dir, "cluster.json")
	c.say("%s written", path)
	return c.figures.Save(path)
}
