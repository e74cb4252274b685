package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
)

// pluginFigures is one run of the figures of plugins.
type pluginFigures struct {
	inTurns
	out    io.Writer
	rows   int
	peers  string
	dir    string
	pentad string

	work    string
	figures figure.List
}

func pluginsCommand(out io.Writer) *cobra.Command {
	p := pluginFigures{out: out}
	c := &cobra.Command{
		Use:   "plugins",
		Short: "Measure plugins against the same loops in Go, and what hostile ones cost others",
		Long: `Measure plugins, metered as in a node, against the same loops in Go over the same columns: over a
batch that is in their memory already, from end to end through the host, and as a query over a tenth
of the standard workload, which SQL peers are asked for, too. Then what metering costs, what calls,
instances and uploads take, how soon an endless loop ends, how long the garbage collector waits for
guests, also for one with the limits of a program built by Go, and what a tenant whose plugins
never end costs another.

Figures are medians of rounds in which all that is compared takes turns. What runs on one thread is
measured in processor time of that thread. Results are compared first; wrong ones end the run with
exit code 1. A bar that does not hold is printed, and the exit code is 0: machines differ.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&p.rows, "rows", 20_000_000, "about how many records the tenth is taken of")
	f.IntVar(&p.rounds, "rounds", 5, "rounds of each measurement")
	f.DurationVar(&p.piece, "piece", 20*time.Millisecond,
		"how long a measurement takes in each round")
	f.StringVar(&p.peers, "peers", "duckdb-sorted,duckdb", "SQL systems that sum beside plugins")
	f.StringVar(&p.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.StringVar(&p.dir, "out", "out", "folder of plugins.json, and of the data while it runs")
	return c
}

func (p *pluginFigures) say(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...)
}

func (p *pluginFigures) run(ctx context.Context) (err error) {
	if p.rounds < 1 || p.piece <= 0 {
		return fmt.Errorf("--rounds %d, --piece %v: both must be above 0", p.rounds, p.piece)
	}
	p.say("%s", machine())
	p.work = filepath.Join(p.dir, "work-plugins")
	if err := os.RemoveAll(p.work); err != nil {
		return err
	}
	if err := os.MkdirAll(p.work, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.work)) }()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{{"kernels", p.kernels}, {"end to end", p.endToEnd}, {"instances", p.instances},
		{"pauses", p.pauses}, {"upload", p.upload}, {"tenants", p.tenants},
		{"tenth", p.tenth}} {
		began := time.Now()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		p.say("%s: measured in %.1f s", step.name, time.Since(began).Seconds())
	}
	p.say("")
	if err := p.figures.Table(p.out); err != nil {
		return err
	}
	path := filepath.Join(p.dir, "plugins.json")
	p.say("\n%d of %d bars do not hold; %s; %s written", missed(p.figures), bars(p.figures),
		machine(), path)
	return p.figures.Save(path)
}

func bars(l figure.List) (n int) {
	for _, f := range l {
		if f.Bar != nil {
			n++
		}
	}
	return n
}

func missed(l figure.List) (n int) {
	for _, f := range l {
		if f.Bar != nil && !*f.Holds {
			n++
		}
	}
	return n
}
