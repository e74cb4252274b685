package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

// profile is one profile of a query, or of the load.
type profile struct {
	out      io.Writer
	dir      string
	workload string
	system   string
	query    string
	rows     int
	length   time.Duration
	realDir  string
}

// ingest is the name of the load among the queries.
const ingest = "ingest"

func profileCommand(out io.Writer) *cobra.Command {
	p := profile{out: out}
	c := &cobra.Command{
		Use:   "profile",
		Short: "Profile one query of a workload, or its load",
		Long: `Load a workload into one embedded system, ask one of its queries again and again, and show where
the processor's time goes. The profile of the last phase stays in the folder, for go tool pprof.`,
		Example: `  bench profile --query Q2
  bench profile --query ingest
  bench profile --workload tsbs --query lastpoint`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if p.length <= 0 {
				return fmt.Errorf("--for %s: give a time above 0", p.length)
			}
			return p.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&p.query, "query", "Q1", "name of the query, or \"ingest\"")
	f.StringVar(&p.workload, "workload", "meters", "one of "+loadNames())
	f.StringVar(&p.system, "system", "pentad", "which system")
	f.IntVar(&p.rows, "rows", 4_000_000, "about how many records")
	f.DurationVar(&p.length, "for", 10*time.Second, "how long to ask")
	f.StringVar(&p.dir, "out", "out", "folder of the profile, and of the data while it runs")
	f.StringVar(&p.realDir, "real", "", "folder of the files of the workload real")
	return c
}

func (p *profile) run(ctx context.Context) (err error) {
	loads, err := chooseLoads(p.workload)
	if err != nil {
		return err
	}
	kinds, err := chooseKinds(p.system)
	if err != nil {
		return err
	}
	w, err := loads[0].make(p.rows, p.realDir)
	if err != nil {
		return err
	}
	survey := w.NewSurvey()
	for _, phase := range w.Phases {
		if err := survey.Add(phase); err != nil {
			return err
		}
	}
	var asked *workload.Query
	last := w.Phases[len(w.Phases)-1]
	if p.query != ingest {
		if asked, err = find(last.Queries(survey), p.query); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(p.dir, "work-profile-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.Chmod(work, 0o755); err != nil { // servers with users of their own look in
		return err
	}
	db, err := kinds[0].Open(ctx, work, survey.Shape)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	load := func() error { return fill(ctx, db, w) }
	if asked == nil {
		return p.record(load)
	}
	if err := load(); err != nil {
		return err
	}
	if rester, ok := db.(system.Rester); ok { // as a run does before it asks
		if err := rester.Rest(ctx); err != nil {
			return fmt.Errorf("rest: %w", err)
		}
	}
	return p.record(func() error { return p.ask(ctx, db, asked) })
}

func find(queries []workload.Query, name string) (*workload.Query, error) {
	names := []string{ingest}
	for i, q := range queries {
		if q.Name == name {
			return &queries[i], nil
		}
		names = append(names, q.Name)
	}
	return nil, fmt.Errorf("no query %q; there are %s", name, strings.Join(names, ", "))
}

// fill loads all phases.
func fill(ctx context.Context, db system.System, w *workload.Workload) error {
	var b record.Batch
	for _, phase := range w.Phases {
		stream, err := phase.Stream()
		if err != nil {
			return err
		}
		for stream.Next(&b) {
			for i := range b.AcqNs {
				b.AcqNs[i] += int64(i)
			}
			if err := db.Put(ctx, &b); err != nil {
				return err
			}
		}
		if err := stream.Err(); err != nil {
			return err
		}
	}
	return db.Settle(ctx)
}

// ask asks the boxes in turn and prints what one costs.
func (p *profile) ask(ctx context.Context, db system.System, q *workload.Query) error {
	rows, runs := uint64(0), uint64(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for time.Since(began) < p.length {
		box := q.Boxes[runs%uint64(len(q.Boxes))]
		if err := box.Normalize(); err != nil {
			return err
		}
		n, err := db.Ask(ctx, &box, func(*record.Batch) {})
		if err != nil {
			return err
		}
		rows += n
		runs++
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	fmt.Fprintf(p.out, "%s: %.1f us each, %d rows each, %.1f ns a row; %d allocations, %d bytes "+
		"each\n", q, float64(took.Nanoseconds())/1e3/float64(runs), rows/runs,
		float64(took.Nanoseconds())/float64(max(rows, 1)), (after.Mallocs-before.Mallocs)/runs,
		(after.TotalAlloc-before.TotalAlloc)/runs)
	return nil
}

// record profiles f and shows the profile.
func (p *profile) record(f func() error) error {
	path := filepath.Join(p.dir, "profile-"+p.query+".pprof")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = f()
	pprof.StopCPUProfile()
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	show := exec.Command("go", "tool", "pprof", "-top", "-nodecount=30", path)
	show.Stdout, show.Stderr = p.out, p.out
	if err := show.Run(); err != nil {
		return fmt.Errorf("go tool pprof: %w; the profile is in %s", err, path)
	}
	fmt.Fprintf(p.out, "\n%s written; go tool pprof -http : %s shows it in a browser\n", path, path)
	return nil
}
