package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/runner"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	loadShare = 0.5 // of the top acknowledged rate, at which records are put while queries run
	barSlower = 3   // times, that a median may take under load
	// loadPasses spread every query over the whole of the load, with all its seals and merges.
	loadPasses = 6
)

// underload is one run of the queries beside ingest.
type underload struct {
	out    io.Writer
	dir    string
	rows   int
	budget time.Duration // per query and state

	config  meters.Config // of what is there before
	db      system.System
	queries []workload.Query
	kinds   []system.Kind // pentad only
	speed   speed
	figures figure.List
}

func underloadCommand(out io.Writer) *cobra.Command {
	u := underload{out: out}
	c := &cobra.Command{
		Use:   "underload",
		Short: "Measure the ten queries of pentad while records are put at half the top rate",
		Long: `Load the standard workload into an embedded node as fast as it goes: the rate of acknowledged
records is the top rate. When all is sealed and merged, ask the ten queries of the idle node, then
while the next readings of the same meters are put at half that rate, in batches of 10,000, then
idle again. Boxes are the same; what has no end in time ends where the first load did. Answers are
compared with an oracle; under load those are compared that are bounded to the acqs of the first
load, and what is timed, without that bound, may not have fewer records.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return u.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&u.rows, "rows", 20_000_000, "about how many records there are before")
	f.DurationVar(&u.budget, "budget", 3*time.Second, "time per query, idle and under load")
	f.StringVar(&u.dir, "out", "out", "folder of underload.json, and of the data while it runs")
	return c
}

func (u *underload) say(format string, args ...any) { fmt.Fprintf(u.out, format+"\n", args...) }

func (u *underload) run(ctx context.Context) (err error) {
	u.say("%s", machine())
	u.config = meters.Sized(u.rows)
	u.kinds = pentad.Kinds()[:1]
	work := filepath.Join(u.dir, "work-underload")
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if u.db, err = u.kinds[0].Open(ctx, work, system.Shape{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.db.Close()) }()
	return u.measure(ctx)
}

func (u *underload) measure(ctx context.Context) error {
	// The first load is a part of one that goes on: the same rows, in the same batches.
	batches := u.config.Devices * u.config.Slots / workload.BatchRows
	whole := u.config
	whole.Slots = endlessSlots
	f := feed{db: u.db, stream: workload.First(whole.NewStream(), batches)}
	var err error
	if u.speed, err = f.all(ctx); err != nil {
		return err
	}
	u.say("%.1f M records: %s", float64(f.records)/1e6, u.speed)
	idle, err := u.idle(ctx, "idle", f.batches)
	if err != nil {
		return err
	}
	f.stream = whole.NewStream()
	if err := skip(f.stream, f.batches); err != nil {
		return err
	}
	loaded, err := u.loaded(ctx, &f, idle)
	if err != nil {
		return err
	}
	if err := u.db.Settle(ctx); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	again, err := u.idle(ctx, "idle again", f.batches)
	if err != nil {
		return err
	}
	return u.report(idle.asked, loaded, again.asked)
}

// endlessSlots are some thirty years of readings.
const endlessSlots = 1 << 20

// skip makes batches for nothing.
func skip(s workload.Stream, batches int) error {
	var b record.Batch
	for first := workload.First(s, batches); first.Next(&b); {
	}
	return s.Err()
}

// state is what is known of the node when it holds so many batches.
type state struct {
	survey *workload.Survey
	want   [][]workload.Answer
	asked  []report.Query
}

// idle asks the queries of a node at rest and compares all answers with the oracle's.
func (u *underload) idle(ctx context.Context, name string, batches int) (s state, err error) {
	whole := u.config
	whole.Slots = endlessSlots
	phase := workload.Phase{Stream: func() (workload.Stream, error) {
		return workload.First(whole.NewStream(), batches), nil
	}}
	s.survey = u.config.Workload().NewSurvey()
	if err := s.survey.Add(phase); err != nil {
		return s, err
	}
	s.survey.End()
	if u.queries == nil {
		u.queries = u.bounded(s.survey)
	}
	if s.want, err = workload.Answers([]workload.Phase{phase}, u.queries); err != nil {
		return s, err
	}
	s.asked, err = u.ask(ctx, name, s, false)
	return s, err
}

// bounded are the ten queries with an end in time, so that records that come later do not make
// their answers grow.
func (u *underload) bounded(s *workload.Survey) []workload.Query {
	queries := u.config.Queries(s.Stamps)
	for _, q := range queries {
		for i := range q.Boxes {
			box := &q.Boxes[i].Box
			if len(box[record.Cap]) == 0 && len(box[record.Acq]) == 0 {
				box[record.Cap] = record.RangeSet{s.Shape.Extent[record.Cap]}
			}
		}
	}
	return queries
}

func (u *underload) ask(
	ctx context.Context, name string, s state, growing bool,
) ([]report.Query, error) {
	u.say("\n%s", name)
	r := runner.Runner{Out: u.out, Workload: u.config.Workload(), Kinds: u.kinds, Budget: u.budget,
		Passes: loadPasses, Growing: growing}
	return r.AskKnown(ctx, s.survey, []system.System{u.db}, u.queries, s.want)
}

// loaded asks the queries while f puts more.
func (u *underload) loaded(ctx context.Context, f *feed, before state) ([]report.Query, error) {
	pace := loadShare * u.speed.acked * 1e6 // records/s
	interval := time.Duration(float64(workload.BatchRows) / pace * float64(time.Second))
	asking, failed := context.WithCancelCause(ctx)
	feeding, stop := context.WithCancel(ctx)
	defer stop()
	more := &feed{db: f.db, stream: f.stream}
	stats := u.db.(pentad.Stored).StoreStats
	began, had := time.Now(), stats()
	var fed error
	var wg sync.WaitGroup
	wg.Go(func() {
		if fed = more.steadily(feeding, interval); fed != nil {
			failed(fed) // without records the queries are not under load
		}
	})
	asked, err := u.ask(asking, fmt.Sprintf("while %.3f M records/s come", pace/1e6), before, true)
	stop()
	wg.Wait()
	failed(nil)
	if err := errors.Join(fed, err); err != nil {
		return nil, err
	}
	took, after := time.Since(began), stats()
	f.batches += more.batches
	kept := float64(more.records) / took.Seconds() / pace
	u.say("%.1f M records came in %.0f s, %.0f %% of the pace, at most %s late, with %d seals and "+
		"%d merges; %s; making them took %.0f %% of a core", float64(more.records)/1e6,
		took.Seconds(), 100*kept, report.Duration(us(more.behind)), after.Seals-had.Seals,
		after.Merges-had.Merges, more, 100*more.made.Seconds()/took.Seconds())
	u.figures.Add("records put under load, as planned: half the top acknowledged rate", pace/1e6,
		"M records/s")
	u.figures.Add("records put under load / planned", kept, figure.Ratio)
	u.figures.Add("merges under load", float64(after.Merges-had.Merges), "merges")
	return asked, nil
}

// report prints the three states beside one another and saves the figures.
func (u *underload) report(idle, loaded, again []report.Query) error {
	t := table{{"", "rows", "idle", "p95", "under load", "p95", "ratio", "", "idle again",
		"ratio"}}
	slower := 0
	for i, q := range idle {
		was, is, after := q.Times[0], loaded[i].Times[0], again[i].Times[0]
		ratio, mark := is.MedianUs/was.MedianUs, ""
		if ratio > barSlower {
			mark = "MORE THAN TRIPLE"
			slower++
		}
		t.add(q.Name+" "+q.About, fmt.Sprintf("%.0f", q.Rows), report.Duration(was.MedianUs),
			report.Duration(was.P95Us), report.Duration(is.MedianUs), report.Duration(is.P95Us),
			report.Times(ratio), mark, report.Duration(after.MedianUs),
			report.Times(after.MedianUs/was.MedianUs))
		u.figures.Add(q.Name+" idle", was.MedianUs, "us")
		u.figures.Add(q.Name+" idle, p95", was.P95Us, "us")
		u.figures.Add(q.Name+" under load", is.MedianUs, "us")
		u.figures.Add(q.Name+" under load, p95", is.P95Us, "us")
		u.figures.AtMost(q.Name+" under load / idle", ratio, figure.Ratio, barSlower)
		u.figures.Add(q.Name+" idle again / idle", after.MedianUs/was.MedianUs, figure.Ratio)
	}
	u.figures.Add("top ingest, acknowledged", u.speed.acked, "M records/s")
	u.figures.Add("top ingest, until all is sealed and merged", u.speed.settled, "M records/s")
	u.say("")
	if err := t.write(u.out); err != nil {
		return err
	}
	u.say("\n%d of %d medians more than triple under load", slower, len(idle))
	path := filepath.Join(u.dir, "underload.json")
	u.say("load average %s; %s written", loadAverage(), path)
	return u.figures.Save(path)
}
