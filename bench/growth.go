package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/runner"
	"github.com/pentad-db/pentad/bench/workload/meters"
)

// The ways in which a load grows.
const (
	byDays    = "days"
	byDevices = "devices"
)

// sameRows is how far answers of two sizes may be apart to count as of one size.
const sameRows = 0.1

// growth is one run of the queries at several sizes.
type growth struct {
	out     io.Writer
	dir     string
	sizes   string
	by      string
	systems string
	budget  time.Duration
	fresh   bool

	rows    []int
	results []report.Result // by size
}

func growthCommand(out io.Writer) *cobra.Command {
	g := growth{out: out}
	c := &cobra.Command{
		Use:   "growth",
		Short: "Measure how queries slow down as the data grows",
		Long: `Load the standard workload at several sizes of the same density, one reading of each meter each
quarter of an hour, and ask its ten queries at each. By days, the meters of the smallest size report
for longer: answers of fixed windows of time keep their size. By devices, more of them report for
the same four days: answers of fixed numbers of devices keep theirs. Answers that differ by less
than a tenth count as fixed.

A run that was interrupted goes on where it stopped.`,
		Example: `  bench growth
  bench growth --sizes 1e6,4e6 --by devices --systems pentad,pebble`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return g.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&g.sizes, "sizes", "5e6,20e6,100e6", "about how many records, rising")
	f.StringVar(&g.by, "by", byDays, "what grows: days or devices")
	f.StringVar(&g.systems, "systems", "pentad", "which systems")
	f.DurationVar(&g.budget, "budget", 2*time.Second, "time per query and system")
	f.StringVar(&g.dir, "out", "out", "folder of growth.json, and of the data while it runs")
	f.BoolVar(&g.fresh, "fresh", false, "forget an interrupted run instead of going on with it")
	return c
}

func (g *growth) say(format string, args ...any) { fmt.Fprintf(g.out, format+"\n", args...) }

func (g *growth) run(ctx context.Context) (err error) {
	if g.rows, err = parseSizes(g.sizes); err != nil {
		return err
	}
	if g.by != byDays && g.by != byDevices {
		return fmt.Errorf("--by %q: take %s or %s", g.by, byDays, byDevices)
	}
	kinds, err := chooseKinds(g.systems)
	if err != nil {
		return err
	}
	g.say("%s", machine())
	work := filepath.Join(g.dir, "work-growth")
	j, err := openJournal(work, g.fresh, g.sizes, g.by, g.systems, g.budget)
	if err != nil {
		return err
	}
	for _, rows := range g.rows {
		w := g.config(rows).Workload()
		w.Name = sizeName(rows)
		r := runner.Runner{Out: g.out, Dir: filepath.Join(work, w.Name), Journal: j, Workload: w,
			Kinds: kinds, Budget: g.budget, Passes: growthPasses}
		var results []report.Result
		done, err := j.Done(w.Name, &results)
		if err != nil {
			return err
		}
		if !done {
			if results, err = r.Run(ctx); err != nil {
				return err
			}
			if err := j.Record(w.Name, results); err != nil {
				return err
			}
		}
		g.results = append(g.results, results...)
		if err := os.RemoveAll(r.Dir); err != nil {
			return err
		}
	}
	if err := g.report(); err != nil {
		return err
	}
	return os.RemoveAll(work)
}

// growthPasses spread a noisy moment over the queries.
const growthPasses = 3

// parseSizes reads rising numbers of records, such as 5e6,20e6.
func parseSizes(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || v < 1 || v > 1e12 {
			return nil, fmt.Errorf("--sizes %q: %q is no number of records, such as 5e6", text,
				part)
		}
		if n := len(out); n > 0 && int(v) <= out[n-1] {
			return nil, fmt.Errorf("--sizes %q: give rising numbers", text)
		}
		out = append(out, int(v))
	}
	return out, nil
}

func sizeName(rows int) string { return fmt.Sprintf("%.4g M", float64(rows)/1e6) }

// config is the workload at a size; that of the smallest is the standard one.
func (g *growth) config(rows int) meters.Config {
	if g.by == byDevices {
		return meters.Sized(rows)
	}
	c := meters.Sized(g.rows[0])
	c.Slots = rows / c.Devices
	return c
}

// report prints a table per system and saves the figures.
func (g *growth) report() error {
	var figures figure.List
	first := &g.results[0]
	for s := range first.Systems {
		name := first.Systems[s].Name
		t := table{g.head()}
		for i := range first.Queries {
			g.query(&t, &figures, name, i)
		}
		g.say("\n%s, by %s", name, g.by)
		if err := t.write(g.out); err != nil {
			return err
		}
	}
	path := filepath.Join(g.dir, "growth.json")
	g.say("\nmedian time, blocks opened and rows examined per answer; x: how many times those "+
		"of the size before; all: of the last to the first\nload average %s; %s written",
		loadAverage(), path)
	return figures.Save(path)
}

func (g *growth) head() []string {
	head := []string{"", "answer", "rows"}
	for i, rows := range g.rows {
		head = append(head, sizeName(rows)+": time")
		if i > 0 {
			head = append(head, "x")
		}
		head = append(head, "blocks", "examined")
	}
	return append(head, "all: rows x", "time x")
}

// query adds the row of a query in one system, and its figures.
func (g *growth) query(t *table, figures *figure.List, name string, query int) {
	var times []report.Time // by size
	var answers []float64   // rows by size
	for _, r := range g.results {
		s := slices.IndexFunc(r.Systems, func(s report.System) bool { return s.Name == name })
		if s < 0 {
			return // it was left out at a size, and that was said
		}
		times = append(times, r.Queries[query].Times[s])
		answers = append(answers, r.Queries[query].Rows)
	}
	q, last := g.results[0].Queries[query], len(times)-1
	rowsGrew := answers[last] / answers[0]
	fixed := "grows"
	if math.Abs(rowsGrew-1) < sameRows {
		fixed = "fixed"
	}
	cells := []string{q.Name + " " + q.About, fixed, fmt.Sprintf("%.0f", q.Rows)}
	for i, x := range times {
		size := fmt.Sprintf("%s %s, %s", q.Name, name, sizeName(g.rows[i]))
		cells = append(cells, report.Duration(x.MedianUs))
		figures.Add(size, x.MedianUs, "us")
		figures.Add(size+": rows", answers[i], "records")
		if i > 0 {
			grew := x.MedianUs / times[i-1].MedianUs
			cells = append(cells, report.Times(grew))
			figures.Add(size+" / "+sizeName(g.rows[i-1]), grew, figure.Ratio)
		}
		if x.Blocks == 0 { // the system does not say
			cells = append(cells, "-", "-")
			continue
		}
		cells = append(cells, fmt.Sprintf("%.0f", x.Blocks), fmt.Sprintf("%.0f", x.Examined))
		figures.Add(size+": blocks opened", x.Blocks, "blocks")
		figures.Add(size+": rows examined", x.Examined, "records")
	}
	timeGrew := times[last].MedianUs / times[0].MedianUs
	t.add(append(cells, report.Times(rowsGrew), report.Times(timeGrew))...)
	if last > 1 {
		figures.Add(fmt.Sprintf("%s %s, %s / %s", q.Name, name, sizeName(g.rows[last]),
			sizeName(g.rows[0])), timeGrew, figure.Ratio)
	}
}
