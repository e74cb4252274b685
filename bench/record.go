package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/results"
)

// recorder runs measurements and keeps what they find for RESULTS.md.
type recorder struct {
	out    io.Writer
	dir    string // of the runs
	folder string // of the results
	only   string
	real   string
	again  bool
}

func recordCommand(out io.Writer) *cobra.Command {
	r := recorder{out: out}
	c := &cobra.Command{
		Use:   "record",
		Short: "Run what RESULTS.md shows and keep the results",
		Long: `Run each measurement of RESULTS.md in a process of its own and keep its result, with machine, date,
commit and versions, in a file that "bench report" renders. A result that has the present commit is
not measured again. A measurement that fails is named at the end, and its old result stays.`,
		Example: `  bench record --real ../data
  bench record --only feed,cold`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&r.only, "only", "", "measurements to run, with commas between them (default all)")
	f.StringVar(&r.real, "real", "", "folder of the files of the workload real")
	f.StringVar(&r.dir, "out", "out", "folder of the runs and of their data")
	f.StringVar(&r.folder, "results", "results", "folder of the results")
	f.BoolVar(&r.again, "again", false, "measure again what this commit has measured")
	return c
}

func (r *recorder) run(ctx context.Context) error {
	list, err := chooseMeasurements(r.only)
	if err != nil {
		return err
	}
	if r.real != "" {
		if r.real, err = filepath.Abs(r.real); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	var failed []error
	for _, m := range list {
		if !r.again && m.Measured(r.folder, commit()) {
			fmt.Fprintf(r.out, "%s: measured at this commit\n", m.Name)
			continue
		}
		fmt.Fprintf(r.out, "\n%s: %s\n", m.Name, m.Command())
		if err := r.measure(ctx, m); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.Name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// chooseMeasurements returns the measurements of a list of names, or all of them.
func chooseMeasurements(names string) ([]results.Measurement, error) {
	all := results.List()
	if names == "" {
		return all, nil
	}
	var out []results.Measurement
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(m results.Measurement) bool { return m.Name == name })
		if i < 0 {
			var known []string
			for _, m := range all {
				known = append(known, m.Name)
			}
			return nil, fmt.Errorf("no measurement %q; there are %s", name,
				strings.Join(known, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func (r *recorder) measure(ctx context.Context, m results.Measurement) error {
	origin := report.Run{Machine: hardware(), Commit: commit(), Load: loadAverage(),
		When: time.Now().UTC(), Command: m.Command()}
	run, err := r.found(ctx, m)
	if err != nil {
		return err
	}
	origin.LoadEnd, origin.Took = loadAverage(), time.Since(origin.When)
	origin.Results, origin.Figures = run.Results, run.Figures
	return m.Keep(&origin, r.folder)
}

// found runs the command of a measurement and returns the results and figures that it leaves.
func (r *recorder) found(ctx context.Context, m results.Measurement) (*report.Run, error) {
	if m.Test {
		text, err := r.start(ctx, "..", "go", append([]string{"test"}, m.Args...))
		if err != nil {
			return nil, err
		}
		figures, err := results.ParseBenchmarks(text)
		return &report.Run{Figures: figures}, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append(slices.Clone(m.Args), "--out", r.dir)
	if m.Real && r.real != "" {
		args = append(args, "--real", r.real)
	}
	if _, err := r.start(ctx, ".", program, args); err != nil {
		return nil, err
	}
	if m.Args[0] == "run" {
		return report.Load(filepath.Join(r.dir, m.Name+resultSuffix))
	}
	figures, err := figure.Load(filepath.Join(r.dir, m.Args[0]+".json"))
	return &report.Run{Figures: figures}, err
}

// start runs a program to its end and returns what it has printed.
func (r *recorder) start(ctx context.Context, dir, program string, args []string) ([]byte, error) {
	var text bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its servers
	cmd.Stdout, cmd.Stderr = io.MultiWriter(r.out, &text), os.Stderr
	err := cmd.Run()
	return text.Bytes(), err
}
