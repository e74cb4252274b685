package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/journal"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/runner"
)

// against is one run of several systems beside one another.
type against struct {
	out       io.Writer
	dir       string
	name      string // of the files that it writes
	workloads string
	systems   string
	rows      int
	budget    time.Duration // per query and system
	realDir   string
	fresh     bool
	keep      bool

	journal *journal.Journal
	result  report.Run
}

func runCommand(out io.Writer) *cobra.Command {
	a := against{out: out}
	c := &cobra.Command{
		Use:   "run",
		Short: "Measure pentad and other databases in one run",
		Long: `Load workloads into every system, one after the other, then ask their queries of all of them in
turn, A B A B, so that a noisy machine disturbs all alike. Every answer of every system is compared
with the oracle's; a wrong one ends the run and says whose it was.

A run that was interrupted goes on where it stopped when it is started again with the same flags
and the same build.`,
		Example: `  bench run
  bench run --workloads meters --rows 20000000 --systems pentad,pebble,duckdb
  bench run --workloads thesis --rows 94608000 --systems pentad --name thesis`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&a.workloads, "workloads", defaultLoads(),
		"which workloads, in this order; of "+loadNames())
	f.StringVar(&a.systems, "systems", defaultKinds(),
		"which systems, in this order; the others are compared with the first")
	f.IntVar(&a.rows, "rows", 0,
		"about how many records per workload; 0: 1.5 to 3 million, 28.8 of tsbs-wide")
	f.DurationVar(&a.budget, "budget", time.Second, "time per query and system")
	f.StringVar(&a.dir, "out", "out", "folder of the figures and the report, and of the data")
	f.StringVar(&a.name, "name", "run", "NAME.json and NAME.html are written")
	f.StringVar(&a.realDir, "real", "", "folder of the files of the workload real")
	f.BoolVar(&a.fresh, "fresh", false, "forget an interrupted run instead of going on with it")
	f.BoolVar(&a.keep, "keep", false, "keep the data of the systems, for a profile")
	return c
}

func (a *against) say(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }

// work is the folder of the data of the run.
func (a *against) work() string { return filepath.Join(a.dir, "work-"+a.name) }

func (a *against) run(ctx context.Context) error {
	loads, err := chooseLoads(a.workloads)
	if err != nil {
		return err
	}
	if _, err := chooseKinds(a.systems); err != nil {
		return err
	}
	if err := a.begin(); err != nil {
		return err
	}
	for _, l := range loads {
		if err := a.workload(ctx, l); err != nil {
			return err
		}
	}
	if err := a.save(); err != nil {
		return err
	}
	if a.keep { // the next run measures again, with the same flags too
		return os.Remove(journalPath(a.work()))
	}
	return os.RemoveAll(a.work())
}

// begin opens the journal and forgets the data of a run that was another.
func (a *against) begin() error {
	began := time.Now().UTC()
	var err error
	if a.journal, err = openJournal(a.work(), a.fresh, a.workloads, a.systems, a.rows, a.budget,
		a.realDir); err != nil {
		return err
	}
	a.result = report.Run{Machine: hardware(), Commit: commit(), Load: loadAverage(), When: began,
		Command: a.command()}
	if cgoMissing != "" {
		a.say("left out: %s", cgoMissing)
	}
	if done, err := a.journal.Done("begin", &a.result); err != nil || done {
		a.say("going on with the run of %s", a.result.When.Format(time.DateTime))
		return err
	}
	a.say("%s", machine())
	return a.journal.Record("begin", a.result)
}

func (a *against) command() string {
	text := "make bench"
	if a.realDir != "" {
		text += " REAL=folder"
	}
	var flags []string
	if a.workloads != defaultLoads() {
		flags = append(flags, "--workloads "+a.workloads)
	}
	if a.systems != defaultKinds() {
		flags = append(flags, "--systems "+a.systems)
	}
	if a.rows != 0 {
		flags = append(flags, fmt.Sprintf("--rows %d", a.rows))
	}
	if a.budget != time.Second {
		flags = append(flags, "--budget "+a.budget.String())
	}
	if len(flags) > 0 {
		text += " BENCH_FLAGS='" + strings.Join(flags, " ") + "'"
	}
	return text
}

func journalPath(work string) string { return filepath.Join(work, "journal.json") }

// openJournal makes the folder of the data of a run and opens the journal in it: that of this build
// with these flags, or a new one.
func openJournal(work string, fresh bool, flags ...any) (*journal.Journal, error) {
	build, err := programHash()
	if err != nil {
		return nil, err
	}
	if fresh {
		if err := os.RemoveAll(work); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chmod(work, 0o755); err != nil { // servers with users of their own look in
		return nil, err
	}
	return journal.Open(journalPath(work), fmt.Sprintln(append([]any{build}, flags...)...))
}

// programHash tells builds apart: figures of two builds never share a run.
func programHash() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

// workload measures one workload and frees its disk.
func (a *against) workload(ctx context.Context, l load) error {
	var results []report.Result
	done, err := a.journal.Done(l.name, &results)
	if err != nil {
		return err
	}
	if !done {
		if results, err = a.measure(ctx, l); err != nil {
			return err
		}
		if err := a.journal.Record(l.name, results); err != nil {
			return err
		}
	}
	a.result.Results = append(a.result.Results, results...)
	if a.keep {
		return nil
	}
	return os.RemoveAll(filepath.Join(a.work(), l.name))
}

func (a *against) measure(ctx context.Context, l load) ([]report.Result, error) {
	rows := a.rows
	if rows == 0 {
		rows = l.rows
	}
	began := time.Now()
	w, err := l.make(rows, a.realDir)
	if err != nil && l.name == "real" {
		a.say("\nleft out: workload real: %s", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kinds, err := chooseKinds(a.systems)
	if err != nil {
		return nil, err
	}
	r := runner.Runner{Out: a.out, Dir: filepath.Join(a.work(), l.name), Journal: a.journal,
		Workload: w, Kinds: kinds, Budget: a.budget}
	results, err := r.Run(ctx)
	if cgoMissing != "" {
		for i := range results {
			results[i].LeftOut = append(results[i].LeftOut, cgoMissing)
		}
	}
	a.say("%s took %.0f s", l.name, time.Since(began).Seconds())
	return results, err
}

// resultSuffix ends the name of the file from which the report can be written again.
const resultSuffix = ".result.json"

// save writes the report, and the figures for machines.
func (a *against) save() error {
	a.result.LoadEnd = loadAverage()
	a.result.Took = time.Since(a.result.When)
	base := filepath.Join(a.dir, a.name)
	a.say("")
	err := a.result.Table(a.out)
	for i := range a.result.Results {
		if p, ok := rowsOf(&a.result.Results[i]); ok {
			a.say("%s", p)
		}
	}
	if err == nil {
		err = a.result.Save(base + resultSuffix)
	}
	if err == nil {
		err = a.result.SaveHTML(base + ".html")
	}
	if err == nil {
		_, err = a.result.SavePlots(base + ".plots")
	}
	figures := figuresOf(a.result.Results)
	if err = errors.Join(err, figures.Save(base+".json")); err != nil {
		return err
	}
	a.say("\nload average %s; %s.html, %s.json and plots written; took %s", a.result.LoadEnd, base,
		base, a.result.Took.Round(time.Second))
	return nil
}

// figuresOf are the figures of results by name: with the workload, the query and the system.
func figuresOf(results []report.Result) figure.List {
	var out figure.List
	for _, r := range results {
		title := r.Title()
		for _, s := range r.Systems {
			out.Add(title+": ingest "+s.Name, s.Ingest, "M records/s")
			out.Add(title+": ingest until ready "+s.Name, s.Settled, "M records/s")
			if s.Ingest > 0 {
				out.Add(title+": ingest until ready as a part of ingest "+s.Name,
					s.Settled/s.Ingest, figure.Ratio)
			}
			if s.Rested > 0 {
				out.Add(title+": ingest until at rest "+s.Name, s.Rested, "M records/s")
			}
			out.Add(title+": bytes per record "+s.Name, s.BytesPerRecord, "B")
			if s.PeakMiB > 0 {
				out.Add(title+": memory under load "+s.Name, s.PeakMiB, "MiB")
				out.Add(title+": memory under load without mapped files "+s.Name,
					s.PeakOwnMiB, "MiB")
			}
		}
		for _, q := range r.Queries {
			for i, t := range q.Times {
				if t.Runs == 0 {
					continue
				}
				out.Add(title+": "+q.Name+" "+r.Systems[i].Name, t.MedianUs, "us")
				if t.ToTwin > 0 {
					out.Add(title+": "+q.Name+" "+r.Systems[i].Name+" / with ids", t.ToTwin,
						figure.Ratio)
				}
				if i > 0 {
					out.Add(title+": "+q.Name+" "+r.Systems[i].Name+" / "+r.Systems[0].Name,
						t.Ratio.Median, figure.Ratio)
				}
			}
		}
		if p, ok := rowsOf(&r); ok {
			out.Add(spreadName, p.spread(), "times")
		}
	}
	return out
}
