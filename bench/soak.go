package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/soak"
)

// soaking is one soak of a node.
type soaking struct {
	out    io.Writer
	dir    string
	pentad string
	memory int64
	opt    soak.Options
}

func soakCommand(out io.Writer) *cobra.Command {
	s := soaking{out: out, opt: soak.Options{For: 30 * time.Minute}}
	c := &cobra.Command{
		Use:   "soak",
		Short: "Use a node in every way for a long time, and check that its resources level off",
		Long: `Start a node as a process of its own and use it at the same time in every way that there is: puts,
late records, corrections, tombstones, small and long questions, aggregates, windows, followers that
go on, come back and stop reading, uploads, erases, purges, retentions, snapshots. One tenant has a
model of all that it must answer, and counts and feeds of the others must be whole. A wrong answer,
or an error that is no refusal to come again, ends the run and is the exit code. In the end each
figure of the last third of the run is held against the middle one: a bar that does not hold is
printed, and the exit code is 0.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context()) },
	}
	f := c.Flags()
	f.DurationVar(&s.opt.For, "for", s.opt.For, "how long")
	f.Int64Var(&s.opt.Steps, "steps", 3, "what each client does at least, however long that takes")
	f.DurationVar(&s.opt.Age, "age", 0, "how long records are kept (default an eighth of --for)")
	f.DurationVar(&s.opt.Delay, "delay", 0,
		"until their bytes may be removed (default a quarter of the age)")
	f.IntVar(&s.opt.Rate, "rate", 6000, "records a second")
	f.DurationVar(&s.opt.Every, "every", 5*time.Second, "time between samples")
	f.Uint64Var(&s.opt.Seed, "seed", 0, "of all that is drawn (default: by the clock)")
	f.Int64Var(&s.memory, "memory", 1<<30, "bytes that the node may have")
	f.StringVar(&s.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.StringVar(&s.dir, "out", "out", "folder of soak.json and soak.samples.json, and of the data")
	return c
}

func (s *soaking) run(ctx context.Context) (err error) {
	if s.opt.For < 0 || s.opt.Steps < 0 || s.opt.Rate < 1 || s.opt.Every <= 0 || s.memory < 1 ||
		s.opt.Age < 0 || s.opt.Delay < 0 {
		return errors.New("--for, --steps, --age and --delay must be 0 or above, --rate, --every " +
			"and --memory above 0")
	}
	if s.opt.Seed == 0 {
		s.opt.Seed = uint64(time.Now().UnixNano())
	}
	dir := filepath.Join(s.dir, "work-soak")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintf(s.out, "%s\nseed %d\n", machine(), s.opt.Seed)
	var log nodeLog
	n, err := serveLogging(ctx, &log, s.pentad, dir, "--memory", fmt.Sprint(s.memory))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop(), log.failed()) }()
	s.opt.Addr, s.opt.Pid, s.opt.Dir = n.addr, n.cmd.Process.Pid, dir
	s.opt.Say = func(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }
	r, err := soak.New(s.opt).Run(ctx)
	path := filepath.Join(s.dir, "soak.json")
	if e := r.Save(filepath.Join(s.dir, "soak.samples.json")); e != nil {
		return errors.Join(err, e)
	}
	fmt.Fprintln(s.out)
	if e := r.Table(s.out); e != nil || err != nil {
		return errors.Join(err, e)
	}
	fmt.Fprintln(s.out)
	figures := r.Figures()
	if err := figures.Table(s.out); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\nload average %s; %s written\n", loadAverage(), path)
	return errors.Join(figures.Save(path), r.Left())
}

// nodeLog hands on what a node logs and keeps the first error, such as a panic that it outlived.
// After the node has ended it is used by one goroutine.
type nodeLog struct {
	line  []byte // that is not whole yet
	first string
}

// Write implements io.Writer.
func (l *nodeLog) Write(p []byte) (int, error) {
	l.line = append(l.line, p...)
	for {
		line, rest, whole := bytes.Cut(l.line, []byte("\n"))
		if !whole {
			break
		}
		if l.first == "" && bytes.Contains(line, []byte(`"level":"ERROR"`)) {
			l.first = string(line)
		}
		l.line = rest
	}
	return os.Stderr.Write(p)
}

func (l *nodeLog) failed() error {
	if l.first == "" {
		return nil
	}
	return fmt.Errorf("the node logged an error: %s", l.first)
}
