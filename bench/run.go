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
	"github.com/pentad-db/pentad/bench/meters"
	"github.com/pentad-db/pentad/bench/peers/pebble"
	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/peers/postgres"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// allKinds returns every system that this build can measure, pentad first.
func allKinds() []system.Kind {
	return slices.Concat(pentad.Kinds(), pebble.Kinds(), cgoKinds(),
		[]system.Kind{postgres.Kind()})
}

// against is one run of several systems beside one another.
type against struct {
	out     io.Writer
	rows    int
	dir     string
	systems string
	budget  time.Duration // per query and system

	work   string
	config meters.Config
	kinds  []system.Kind
	open   []system.System
	acqs   []int64
	result report.Result
}

func runCommand(out io.Writer) *cobra.Command {
	a := against{out: out}
	c := &cobra.Command{
		Use:   "run",
		Short: "Measure pentad beside other databases, in one run",
		Long: `Load the standard workload into every system, then ask its ten queries of all of them in turn,
A B A B, so that a noisy machine disturbs all alike. Every answer of every system is compared with
the oracle's; a wrong one ends the run and says whose it was.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.run(c.Context()) },
	}
	names := make([]string, 0, 8)
	for _, k := range allKinds() {
		names = append(names, k.Name)
	}
	c.Flags().IntVar(&a.rows, "rows", 2_000_000, "about how many records")
	c.Flags().StringVar(&a.dir, "out", "out", "folder of run.json and run.html, and of the data")
	c.Flags().StringVar(&a.systems, "systems", strings.Join(names, ","),
		"which systems, in this order")
	c.Flags().DurationVar(&a.budget, "budget", 3*time.Second, "time per query and system")
	return c
}

func (a *against) say(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }

func (a *against) run(ctx context.Context) (err error) {
	if err := a.choose(); err != nil {
		return err
	}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return err
	}
	if a.work, err = os.MkdirTemp(a.dir, "work-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(a.work)) }()
	if err := os.Chmod(a.work,
		0o755); err != nil { // servers that run as users of their own look in
		return err
	}
	a.config = meters.Sized(a.rows)
	a.result = report.Result{Title: "meters", Machine: machine(), When: time.Now().UTC()}
	a.say("%s", a.result.Machine)
	if cgoMissing != "" {
		a.say("left out: %s", cgoMissing)
		a.result.LeftOut = append(a.result.LeftOut, cgoMissing)
	}
	defer func() {
		for _, s := range a.open {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := a.loadAll(ctx); err != nil {
		return err
	}
	if err := a.queries(ctx); err != nil {
		return err
	}
	return a.save()
}

// loadAll opens and fills the systems, leaving out those that this machine has not.
func (a *against) loadAll(ctx context.Context) error {
	wanted := a.kinds
	a.kinds = nil
	for _, k := range wanted {
		err := a.load(ctx, k)
		if missing := system.MissingError(""); errors.As(err, &missing) {
			a.say("left out: %s: %s", k.Name, missing)
			a.result.LeftOut = append(a.result.LeftOut, k.Name+": "+missing.Error())
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
		a.kinds = append(a.kinds, k)
	}
	return nil
}

// choose picks the systems that were asked for.
func (a *against) choose() error {
	all := allKinds()
	for name := range strings.SplitSeq(a.systems, ",") {
		i := slices.IndexFunc(all, func(k system.Kind) bool { return k.Name == name })
		if i < 0 {
			return fmt.Errorf("no system %q; there are %s", name,
				strings.Join(kindNames(all), ", "))
		}
		a.kinds = append(a.kinds, all[i])
	}
	return nil
}

func kindNames(kinds []system.Kind) []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

// load fills one system and weighs it.
func (a *against) load(ctx context.Context, k system.Kind) error {
	dir := filepath.Join(a.work, k.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s, err := k.Open(ctx, dir)
	if err != nil {
		return err
	}
	a.open = append(a.open, s)
	a.acqs = a.acqs[:0]
	var b record.Batch
	records, began := int64(0), time.Now()
	for stream := a.config.NewStream(); stream.Next(&b); {
		a.acqs = append(a.acqs, b.AcqNs[0])
		for i := range b.AcqNs {
			b.AcqNs[i] += int64(i)
		}
		if err := s.Put(ctx, &b); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		records += int64(b.Len())
	}
	acked := time.Since(began)
	if err := s.Settle(ctx); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	settled := time.Since(began)
	bytes, err := treeBytes(dir)
	if err != nil {
		return err
	}
	a.result.Records = records
	a.result.Systems = append(a.result.Systems, report.System{Name: k.Name, About: k.About,
		Durability: k.Durability, Ingest: rate(records, acked), Settled: rate(records, settled),
		BytesPerRecord: float64(bytes) / float64(records)})
	a.say("%-14s loaded %d records in %.1f s, settled after %.1f s, %.1f bytes each", k.Name,
		records,
		acked.Seconds(), settled.Seconds(), float64(bytes)/float64(records))
	return nil
}

// queries asks each query of all systems in turn.
func (a *against) queries(ctx context.Context) error {
	asked := a.config.Queries(a.acqs)
	want, err := (&quick{config: a.config}).oracle(asked)
	if err != nil {
		return err
	}
	for i, q := range asked {
		row := report.Query{Name: q.Name, About: q.About, Count: q.Count}
		for _, answer := range want[i] {
			row.Rows += float64(answer.Rows) / float64(len(want[i]))
		}
		times := make([][]float64, len(a.open))
		spent := make([]time.Duration, len(a.open))
		for box := range q.Boxes {
			if err := a.askBox(ctx, q, box, want[i][box], times, spent); err != nil {
				return err
			}
		}
		line := fmt.Sprintf("%-4s", q.Name)
		for s := range a.open {
			row.Times = append(row.Times, report.Summarise(times[s]))
			line += fmt.Sprintf("  %s %.1f us", a.kinds[s].Name, row.Times[s].MedianUs)
		}
		a.say("%s", line)
		a.result.Queries = append(a.result.Queries, row)
	}
	return nil
}

// rounds is how often a box is asked after the checked warm-up.
const rounds = 3

// askBox asks one box of every system, then again in turn as often as the budget allows.
func (a *against) askBox(
	ctx context.Context, q meters.Query, box int, want meters.Answer, times [][]float64,
	spent []time.Duration,
) error {
	query := q.Boxes[box]
	if err := query.Normalize(); err != nil {
		return err
	}
	for round := range 1 + rounds {
		for s := range a.open {
			if spent[s] > a.budget && (round > 0 || box > 2) {
				continue
			}
			var got meters.Answer
			take := func(b *record.Batch) {}
			if round == 0 {
				take = func(b *record.Batch) { got.Add(b, a.acqs) }
			}
			began := time.Now()
			rows, err := a.open[s].Ask(ctx, &query, q.Count, take)
			took := time.Since(began)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", a.kinds[s].Name, q, err)
			}
			spent[s] += took
			if q.Count {
				got.Rows = rows
			}
			if rows != want.Rows || round == 0 && got != want {
				return fmt.Errorf("WRONG ANSWER of %s to %s, box %d: %d rows, the oracle says %d",
					a.kinds[s].Name, q, box, rows, want.Rows)
			}
			if round > 0 || spent[s] > a.budget {
				times[s] = append(times[s], float64(took.Nanoseconds())/1e3)
			}
		}
	}
	return nil
}

// save writes the report, and the figures for machines.
func (a *against) save() error {
	var figures figure.List
	for _, s := range a.result.Systems {
		figures.Add("ingest "+s.Name, s.Ingest, "M records/s")
		figures.Add("bytes per record "+s.Name, s.BytesPerRecord, "B")
	}
	for _, q := range a.result.Queries {
		for s, t := range q.Times {
			figures.Add(q.Name+" "+a.kinds[s].Name, t.MedianUs, "us")
		}
	}
	a.say("")
	if err := a.result.Table(a.out); err != nil {
		return err
	}
	page := filepath.Join(a.dir, "run.html")
	if err := a.result.SaveHTML(page); err != nil {
		return err
	}
	a.say("\n%s; %s and %s written", machine(), page, filepath.Join(a.dir, "run.json"))
	return figures.Save(filepath.Join(a.dir, "run.json"))
}
