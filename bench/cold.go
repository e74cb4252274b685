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
	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/runner"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/sdk/record"
)

// cold is one run of queries that find nothing in memory.
type cold struct {
	out       io.Writer
	dir       string
	rows      int
	systems   string
	budget    time.Duration
	boxes     int
	filesOnly bool
	fresh     bool

	kinds   []system.Kind
	warm    report.Result
	said    string // how the page cache was dropped, once it was said
	figures figure.List
}

// firstRun is a query of a store that was just opened.
type firstRun struct {
	openUs, openReadBytes float64
	us, readBytes         float64
	blocks                float64
}

func coldCommand(out io.Writer) *cobra.Command {
	r := cold{out: out}
	c := &cobra.Command{
		Use:   "cold",
		Short: "Measure queries of stores just opened, with an empty page cache",
		Long: `Load the standard workload, ask its ten queries as in "bench run", which warms and checks. Then for
each box: close the store, take its files out of the page cache, open it, and ask once; then all of
that again, to compare the answer with the oracle's. Beside the time of the first run stand the
bytes that the process had read from the disk meanwhile, and the blocks that were opened. As root
the page cache of the whole machine is dropped. Only systems that run in this process can be asked;
others keep caches of their own.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&r.rows, "rows", 5_000_000, "about how many records")
	f.StringVar(&r.systems, "systems", coldSystems(), "which systems, of those in this process")
	f.DurationVar(&r.budget, "budget", time.Second, "time per query and system while warm")
	f.IntVar(&r.boxes, "boxes", 5, "of each query that are asked cold, at most 11")
	f.BoolVar(&r.filesOnly, "files-only", false, filesOnlyAbout)
	f.StringVar(&r.dir, "out", "out", "folder of cold.json, and of the data while it runs")
	f.BoolVar(&r.fresh, "fresh", false, "forget an interrupted run instead of going on with it")
	return c
}

func coldSystems() string {
	if cgoMissing != "" {
		return "pentad,pebble,bbolt"
	}
	return "pentad,pebble,bbolt,duckdb,sqlite"
}

func (r *cold) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *cold) run(ctx context.Context) (err error) {
	if r.kinds, err = chooseKinds(r.systems); err != nil {
		return err
	}
	for _, k := range r.kinds {
		if !k.Embedded {
			return fmt.Errorf("%s is a server and keeps caches of its own; leave it out", k.Name)
		}
	}
	if r.boxes < 1 {
		return fmt.Errorf("--boxes %d: ask one at least", r.boxes)
	}
	r.say("%s", machine())
	work := filepath.Join(r.dir, "work-cold")
	j, err := openJournal(work, r.fresh, r.rows, r.systems, r.budget)
	if err != nil {
		return err
	}
	config := meters.Sized(r.rows)
	w := config.Workload()
	warm := runner.Runner{Out: r.out, Dir: filepath.Join(work, "data"), Journal: j, Workload: w,
		Kinds: r.kinds, Budget: r.budget}
	results, err := warm.Run(ctx)
	if err != nil {
		return err
	}
	r.warm = results[0]
	survey := w.NewSurvey()
	if err := survey.Add(w.Phases[0]); err != nil {
		return err
	}
	survey.End()
	queries := config.Queries(survey.Stamps)
	want, err := workload.Answers(w.Phases[:1], queries)
	if err != nil {
		return err
	}
	for s, x := range r.warm.Systems {
		k := r.kinds[slices.IndexFunc(r.kinds, func(k system.Kind) bool {
			return k.Name == x.Name
		})]
		if err := r.system(ctx, k, s, filepath.Join(warm.Dir, k.Name), survey, queries,
			want); err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	path := filepath.Join(r.dir, "cold.json")
	r.say("\nmedians over the boxes; bytes are those that the disk was asked for\n"+
		"load average %s; %s written", loadAverage(), path)
	return errors.Join(r.figures.Save(path), os.RemoveAll(work))
}

// system asks all queries of a system, each box of a store that was just opened, and prints them.
func (r *cold) system(
	ctx context.Context, k system.Kind, at int, dir string, survey *workload.Survey,
	queries []workload.Query, want [][]workload.Answer,
) error {
	t := table{{"", "rows", "warm", "cold", "x", "read", "blocks", "opening", "read",
		"cold runs"}}
	for i, q := range queries {
		warm := r.warm.Queries[i]
		if x := warm.Times[at]; x.Unsupported != "" {
			t.add(q.String(), "", x.Unsupported)
			continue
		}
		var runs []firstRun
		for b, box := range q.Boxes[:min(r.boxes, len(q.Boxes))] {
			run, err := r.checked(ctx, k, dir, survey, box, want[i][b])
			if err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
			runs = append(runs, run)
		}
		r.add(&t, k.Name, warm, at, runs)
	}
	r.say("\n%s, cold", k.Name)
	return t.write(r.out)
}

// checked asks a box twice, each time of a store that was just opened: the first run is timed, and
// its rows are counted; the answer of the second is compared in full.
func (r *cold) checked(
	ctx context.Context, k system.Kind, dir string, survey *workload.Survey, q system.Query,
	want workload.Answer,
) (firstRun, error) {
	if err := q.Normalize(); err != nil {
		return firstRun{}, err
	}
	var got [2]workload.Answer
	run, rows, err := r.first(ctx, k, dir, survey, q, func(b *record.Batch) {
		got[0].Rows += uint64(b.Len())
	})
	if err != nil {
		return run, err
	}
	_, again, err := r.first(ctx, k, dir, survey, q, func(b *record.Batch) {
		got[1].Add(b, q.Want, survey.Stamps)
	})
	if q.Want == system.WantCount {
		got[0].Rows, got[1].Rows = rows, again
	}
	if err == nil && (rows != want.Rows || again != want.Rows || got[0].Rows != want.Rows ||
		got[1] != want) {
		err = fmt.Errorf("WRONG ANSWER to %v: %d rows, then %d, the oracle says %d (sums %x, %x)",
			q.Box, rows, again, want.Rows, got[1].Sum, want.Sum)
	}
	return run, err
}

// first opens a store whose files are not in memory, and asks once.
func (r *cold) first(
	ctx context.Context, k system.Kind, dir string, survey *workload.Survey, q system.Query,
	take func(b *record.Batch),
) (run firstRun, rows uint64, err error) {
	how, err := dropCache(dir, r.filesOnly)
	if err != nil {
		return run, 0, err
	}
	if r.said != how {
		r.said = how
		r.say("\nbefore each opening, %s", how)
	}
	var db system.System
	if run.openUs, run.openReadBytes, err = spent(func() error {
		db, err = k.Open(ctx, dir, survey.Shape)
		return err
	}); err != nil {
		return run, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	run.us, run.readBytes, err = spent(func() (err error) {
		rows, err = db.Ask(ctx, &q, take)
		return err
	})
	if x, ok := db.(system.Explained); ok && err == nil {
		run.blocks = float64(x.Cost().Blocks)
	}
	return run, rows, err
}

// spent returns how long f takes, in microseconds, and how many bytes are read from the disk
// meanwhile.
func spent(f func() error) (tookUs, readBytes float64, err error) {
	before, err := process.ReadBytes()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	tookUs = us(time.Since(began))
	after, err := process.ReadBytes()
	return tookUs, float64(after - before), err
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// add adds the row of a query and its figures.
func (r *cold) add(t *table, name string, warm report.Query, at int, runs []firstRun) {
	middle := func(of func(run firstRun) float64) float64 {
		var values []float64
		for _, run := range runs {
			values = append(values, of(run))
		}
		return report.Summarise(values).MedianUs
	}
	us := middle(func(run firstRun) float64 { return run.us })
	opening := middle(func(run firstRun) float64 { return run.openUs })
	read := middle(func(run firstRun) float64 { return run.readBytes })
	openRead := middle(func(run firstRun) float64 { return run.openReadBytes })
	blocks := middle(func(run firstRun) float64 { return run.blocks })
	var each []string
	for _, run := range runs {
		each = append(each, report.Duration(run.us))
	}
	asked := fmt.Sprintf("%s %s", warm.Name, name)
	r.figures.Add(asked+" warm", warm.Times[at].MedianUs, "us")
	r.figures.Add(asked+" cold", us, "us")
	r.figures.Add(asked+" cold / warm", us/warm.Times[at].MedianUs, figure.Ratio)
	r.figures.Add(asked+" cold: opening", opening, "us")
	r.figures.Add(asked+" cold: read while opening", openRead, "B")
	r.figures.Add(asked+" cold: read", read, "B")
	opened := "-"
	if blocks > 0 { // else the system does not say
		r.figures.Add(asked+" cold: blocks opened", blocks, "blocks")
		opened = fmt.Sprintf("%.0f", blocks)
	}
	t.add(warm.Name+" "+warm.About, fmt.Sprintf("%.0f", warm.Rows),
		report.Duration(warm.Times[at].MedianUs), report.Duration(us),
		report.Times(us/warm.Times[at].MedianUs), size(read), opened, report.Duration(opening),
		size(openRead), strings.Join(each, ", "))
}

// size writes bytes.
func size(bytes float64) string { return fmt.Sprintf("%.3g MiB", bytes/mib) }
