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
	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload/meters"
)

const (
	barIdle  = 0.01 // of a core
	barIndex = 0.4  // GB of memory for index and directory of 1e9 records
	billion  = 1e9
)

// resident is one run of opening nodes of several sizes.
type resident struct {
	out       io.Writer
	dir       string
	sizes     string
	pentad    string
	idle      time.Duration
	filesOnly bool

	rows    []int
	work    string
	empty   openedNode
	found   []opening
	figures figure.List
}

// opening is what a size takes.
type opening struct {
	records   int64
	load      speed      // with the memory of the harness
	first     openedNode // with nothing in the page cache
	second    openedNode
	served    process.Resident // the node as a process of its own
	servedCPU float64
}

func residentCommand(out io.Writer) *cobra.Command {
	r := resident{out: out}
	c := &cobra.Command{
		Use:   "resident",
		Short: "Measure what an open node takes: time to open, memory, processor time while idle",
		Long: `Load the standard workload at several sizes, and open each store in a process of its own: first
with an empty page cache, then again. Memory is what is held after a collection, less what a node
without records holds; it is given before and after the ten queries, and scaled to a billion records
by the slope between the first size and the last. The idle node is watched as a Go library and as
the program pentad, once that has done what it prepares after its start.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&r.sizes, "sizes", "5e6,20e6", "about how many records, two sizes or more, rising")
	f.DurationVar(&r.idle, "idle", 10*time.Second, "how long to watch the idle node")
	f.StringVar(&r.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.BoolVar(&r.filesOnly, "files-only", false, filesOnlyAbout)
	f.StringVar(&r.dir, "out", "out", "folder of resident.json, and of the data while it runs")
	return c
}

func (r *resident) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *resident) run(ctx context.Context) (err error) {
	if r.rows, err = parseSizes(r.sizes); err != nil {
		return err
	}
	if len(r.rows) < 2 {
		return fmt.Errorf("--sizes %q: give two at least, for a slope", r.sizes)
	}
	r.say("%s", machine())
	r.work = filepath.Join(r.dir, "work-resident")
	if err := os.RemoveAll(r.work); err != nil {
		return err
	}
	if err := os.MkdirAll(r.work, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	empty := filepath.Join(r.work, "empty")
	for range 2 { // the first compiles the standard plugins
		if r.empty, err = openElsewhere(ctx, empty, 0, nil); err != nil {
			return err
		}
	}
	for _, rows := range r.rows {
		if err := r.size(ctx, rows); err != nil {
			return err
		}
	}
	return r.report()
}

// size loads a size and opens it.
func (r *resident) size(ctx context.Context, rows int) error {
	dir := filepath.Join(r.work, sizeName(rows))
	var o opening
	queries, err := r.load(ctx, dir, meters.Sized(rows), &o)
	if err != nil {
		return err
	}
	how, err := dropCache(dir, r.filesOnly)
	if err != nil {
		return err
	}
	r.say("before the first opening, %s", how)
	if o.first, err = openElsewhere(ctx, dir, 0, nil); err != nil {
		return err
	}
	if o.second, err = openElsewhere(ctx, dir, r.idle, queries); err != nil {
		return err
	}
	if err := r.serve(ctx, dir, &o); err != nil {
		return err
	}
	r.found = append(r.found, o)
	return os.RemoveAll(dir)
}

// load fills a store and returns the boxes of its queries.
func (r *resident) load(
	ctx context.Context, dir string, c meters.Config, o *opening,
) (boxes []system.Query, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	db, err := pentad.Kinds()[0].Open(ctx, dir, system.Shape{})
	if err != nil {
		return nil, err
	}
	f := feed{db: db, stream: c.NewStream()}
	speed, err := f.all(ctx)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	o.records, o.load = f.records, speed
	r.say("%.4g M records: %s", float64(f.records)/1e6, speed)
	w := c.Workload()
	survey := w.NewSurvey()
	if err := survey.Add(w.Phases[0]); err != nil {
		return nil, err
	}
	for _, q := range c.Queries(survey.Stamps) {
		boxes = append(boxes, q.Boxes...)
	}
	return boxes, nil
}

// serve watches the program pentad with the store.
func (r *resident) serve(ctx context.Context, dir string, o *opening) error {
	n, err := serve(ctx, r.pentad, dir)
	if err != nil {
		return err
	}
	pid := n.cmd.Process.Pid
	if err = calm(ctx, pid); err == nil {
		o.served, err = process.Memory(pid)
	}
	if err == nil {
		o.servedCPU, err = idleCPU(ctx, pid, r.idle)
	}
	return errors.Join(err, n.stop())
}

// quantity is something that an open node takes.
type quantity struct {
	name  string
	unit  string
	per   float64 // of the unit
	grows bool    // with the records
	of    func(o *opening) float64
}

// quantities are what is reported, memory less that of a node without records.
func (r *resident) quantities() []quantity {
	none := r.empty.Opened
	return []quantity{
		{"open, page cache empty", "ms", 1, true,
			func(o *opening) float64 { return o.first.OpenMs }},
		{"open again", "ms", 1, true, func(o *opening) float64 { return o.second.OpenMs }},
		{"heap", "MiB", mib, true, func(o *opening) float64 {
			return float64(o.second.Opened.HeapBytes - none.HeapBytes)
		}},
		{heapAsked, "MiB", mib, true, func(o *opening) float64 {
			return float64(o.second.Asked.HeapBytes - none.HeapBytes)
		}},
		{"resident, own", "MiB", mib, true, func(o *opening) float64 {
			return float64(o.second.Opened.Anon - none.Anon)
		}},
		{"resident, own, after the queries", "MiB", mib, true, func(o *opening) float64 {
			return float64(o.second.Asked.Anon - none.Anon)
		}},
		{"resident, mapped files", "MiB", mib, true, func(o *opening) float64 {
			return float64(o.second.Opened.File - none.File)
		}},
		{"resident, mapped files, after the queries", "MiB", mib, true,
			func(o *opening) float64 { return float64(o.second.Asked.File - none.File) }},
		{"segments on disk", "MiB", mib, true, func(o *opening) float64 {
			return float64(o.second.Stats.SegmentBytes)
		}},
		{"of these, index", "MiB", mib, true, func(o *opening) float64 {
			return float64(o.second.Stats.IndexBytes)
		}},
		{"pentad serve: resident, own", "MiB", mib, true, func(o *opening) float64 {
			return float64(o.served.Anon)
		}},
		{"pentad serve: resident, mapped files", "MiB", mib, true, func(o *opening) float64 {
			return float64(o.served.File)
		}},
		{"pentad serve: " + idleName, percent, 0.01, false,
			func(o *opening) float64 { return o.servedCPU }},
		{idleName, percent, 0.01, false, func(o *opening) float64 { return o.second.IdleCPU }},
		{"memory at most, while loading", "MiB", 1, false,
			func(o *opening) float64 { return o.load.peakMiB }},
		{"the same without mapped files", "MiB", 1, false,
			func(o *opening) float64 { return o.load.ownMiB }},
	}
}

const (
	heapAsked = "heap after the queries"
	idleName  = "processor while idle"
	percent   = "% of a core"
	mib       = 1 << 20
)

// bars holds the last size against what was promised.
func (r *resident) bars(first, last *opening) {
	asked := func(o *opening) float64 { return float64(o.second.Asked.HeapBytes) }
	slope := (asked(last) - asked(first)) / float64(last.records-first.records)
	r.figures.AtMost(heapAsked+", of a billion records", slope*billion/1e9, "GB", barIndex)
	r.figures.AtMost(idleName, last.second.IdleCPU, "cores", barIdle)
	r.figures.AtMost("pentad serve: "+idleName, last.servedCPU, "cores", barIdle)
}

// report prints what the sizes take beside one another, and what a billion records would.
func (r *resident) report() error {
	t := table{{""}}
	for _, o := range r.found {
		t[0] = append(t[0], fmt.Sprintf("%.4g M", float64(o.records)/1e6))
	}
	t[0] = append(t[0], "a billion", "")
	first, last := &r.found[0], &r.found[len(r.found)-1]
	for _, q := range r.quantities() {
		cells := []string{q.name}
		for i := range r.found {
			v := q.of(&r.found[i]) / q.per
			cells = append(cells, fmt.Sprintf("%.4g", v))
			r.figures.Add(fmt.Sprintf("%s, %s", q.name, sizeName(r.rows[i])), v, q.unit)
		}
		slope := (q.of(last) - q.of(first)) / float64(last.records-first.records) * billion / q.per
		if q.grows {
			cells = append(cells, fmt.Sprintf("%.4g", slope))
			r.figures.Add(q.name+", scaled to a billion", slope, q.unit)
		} else {
			cells = append(cells, "")
		}
		t.add(append(cells, q.unit)...)
	}
	r.bars(first, last)
	r.say("")
	if err := t.write(r.out); err != nil {
		return err
	}
	r.say("")
	if err := r.figures[len(r.figures)-3:].Table(r.out); err != nil {
		return err
	}
	path := filepath.Join(r.dir, "resident.json")
	r.say("\nload average %s; %s written", loadAverage(), path)
	return r.figures.Save(path)
}
