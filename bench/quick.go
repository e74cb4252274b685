package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/journal"
	"github.com/pentad-db/pentad/bench/runner"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
)

// quick is one run of the short benchmark.
type quick struct {
	out        io.Writer
	rows       int
	besideRows int
	budget     time.Duration
	dir        string
	pentad     string
	fresh      bool
	only       string

	work    string // data of the run, removed at its end
	journal *journal.Journal
	config  meters.Config
	clock   atomic.Int64 // of the embedded node, in ns
	survey  *workload.Survey
	found
}

// found is what the steps so far have found.
type found struct {
	Figures figure.List
	Stored  int64         // records of the workload
	Took    time.Duration // by all steps
}

func quickCommand(out io.Writer) *cobra.Command {
	q := quick{out: out}
	c := &cobra.Command{
		Use:   "quick",
		Short: "Measure ingest, size, the ten queries, a plugin, and ratios to embedded peers",
		Long: `Load the standard workload over HTTP and embedded, post a part of it as NDJSON to a node on one
core and read it back as NDJSON and CSV, ask its ten queries of the large loads, run a plugin
over a tenth of it, and ask the queries of pentad, Pebble with three copies and DuckDB in turn on a
smaller load. Every answer is compared with an oracle. A run that was interrupted goes on where it
stopped.

Wrong answers end it with exit code 1. A bar that does not hold is printed, and the exit code is
0: machines differ.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return q.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&q.rows, "rows", 20_000_000, "about how many records")
	f.IntVar(&q.besideRows, "beside-rows", 1_500_000, "about how many records beside peers")
	f.DurationVar(&q.budget, "budget", 1800*time.Millisecond,
		"time per query and system beside peers")
	f.StringVar(&q.dir, "out", "out", "folder of quick.json, and of the data while it runs")
	f.StringVar(&q.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.BoolVar(&q.fresh, "fresh", false, "forget an interrupted run instead of going on with it")
	f.StringVar(&q.only, "only", "", "run only this step, e.g. JSON")
	return c
}

func (q *quick) say(format string, args ...any) { fmt.Fprintf(q.out, format+"\n", args...) }

func (q *quick) run(ctx context.Context) error {
	q.work = filepath.Join(q.dir, "work-quick")
	q.config = meters.Sized(q.rows)
	if err := q.begin(); err != nil {
		return err
	}
	q.say("%s", machine())
	steps := []struct {
		name string
		run  func(context.Context) error
	}{{"raw", q.raw}, {"over HTTP", q.overHTTP}, {"embedded", q.embedded}, {"raw again", q.raw},
		{"JSON", q.json}, {"ask", q.ask}, {"beside", q.beside}}
	for _, step := range steps {
		if q.only != "" && !strings.EqualFold(step.name, q.only) {
			continue
		}
		done, err := q.journal.Done(step.name, &q.found)
		if err != nil {
			return err
		}
		if done {
			q.say("%s: done before", step.name)
			continue
		}
		began := time.Now()
		if err := step.run(ctx); err != nil {
			return err
		}
		q.Took += time.Since(began)
		if err := q.journal.Record(step.name, q.found); err != nil {
			return err
		}
	}
	q.say("")
	if err := q.Figures.Table(q.out); err != nil {
		return err
	}
	path := filepath.Join(q.dir, "quick.json")
	q.say("\n%s; %s written; took %.0f s", machine(), path, q.Took.Seconds())
	if err := q.Figures.Save(path); err != nil {
		return err
	}
	return os.RemoveAll(q.work)
}

// begin opens the journal and forgets the data of a run that was another.
func (q *quick) begin() error {
	var err error
	q.journal, err = openJournal(q.work, q.fresh, q.rows, q.besideRows, q.budget)
	return err
}

// surveyed returns what one pass over the workload tells.
func (q *quick) surveyed() (*workload.Survey, error) {
	if q.survey == nil {
		w := q.config.Workload()
		s := w.NewSurvey()
		if err := s.Add(w.Phases[0]); err != nil {
			return nil, err
		}
		s.End()
		q.survey = s
	}
	return q.survey, nil
}

func (q *quick) embeddedDir() string { return filepath.Join(q.work, "embedded") }

// open opens the embedded node. Its clock is the workload's, so that acq relates to cap as it does
// for live meters.
func (q *quick) open(ctx context.Context, workers int) (*node.Node, error) {
	return node.Open(ctx, node.Options{Dir: q.embeddedDir(), Listen: "127.0.0.1:0",
		Store: store.Options{Now: q.clock.Load, Workers: workers}})
}

// ask asks the queries, then runs the plugin.
func (q *quick) ask(ctx context.Context) error {
	if err := q.queries(ctx); err != nil {
		return err
	}
	began := time.Now()
	n, err := q.open(ctx, 0)
	if err != nil {
		return err
	}
	q.Figures.Add("open, everything sealed", time.Since(began).Seconds()*1e3, "ms")
	defer func() {
		if n != nil {
			_ = n.Close(context.WithoutCancel(ctx)) // the run has failed already
		}
	}()
	if err := q.plugin(ctx, n, "stats plugin, all workers"); err != nil {
		return err
	}
	if err = n.Close(ctx); err != nil {
		return err
	}
	// One worker: the plugin and the native loop then differ in nothing but the loop.
	if n, err = q.open(ctx, 1); err != nil {
		return err
	}
	if err := q.againstNative(ctx, n); err != nil {
		return err
	}
	err = n.Close(ctx)
	n = nil
	return err
}

// beside asks the ten queries of pentad and of its embedded peers in turn.
func (q *quick) beside(ctx context.Context) error {
	names := []string{"pentad", "pebble-3"} // which has the copy of pebble, too
	if cgoMissing == "" {
		names = append(names, "duckdb")
	} else {
		q.say("left out: %s", cgoMissing)
	}
	kinds, err := chooseKinds(strings.Join(names, ","))
	if err != nil {
		return err
	}
	w := meters.Sized(q.besideRows).Workload()
	w.Name = fmt.Sprintf("%.3g M records beside peers", float64(q.besideRows)/1e6)
	r := runner.Runner{Out: q.out, Dir: filepath.Join(q.work, "beside"), Journal: q.journal,
		Workload: w, Kinds: kinds, Budget: q.budget, Passes: passes}
	results, err := r.Run(ctx)
	if err != nil {
		return err
	}
	for _, f := range figuresOf(results) {
		if f.Unit == figure.Ratio || strings.Contains(f.Name, "ingest") {
			q.Figures = append(q.Figures, f)
		}
	}
	return nil
}

const (
	// askBudget is the time per query of a node and its client, in all passes. Ratios to other
	// systems vary more, and get more.
	askBudget = 300 * time.Millisecond
	passes    = 6
)
