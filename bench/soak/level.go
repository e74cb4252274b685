package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/pentad-db/pentad/bench/figure"
)

const (
	// barLevel is by how much the last third of a run may take more than the one before. The first
	// is that in which the node fills up.
	barLevel = 1.15
	// leftGoroutines and leftDescriptors are how many more there may be at the end, when all
	// clients have left, than before they came: workers that the first requests started, the log.
	leftGoroutines  = 24
	leftDescriptors = 24
	// idleWorkers are those that the server keeps for 10 to 20 s for connections to come: a short
	// soak does not wait until they end.
	idleWorkers = 64
)

// Report is what a soak found.
type Report struct {
	Seed          uint64   `json:"seed"`
	Before, After Sample   // without clients
	Samples       []Sample // with them
	Workers       []Work
	Records       int64 // acknowledged, of the loading tenants
	Checked       int64 // answers that were compared
	Unsure        int64
	Refused       int64
	Short         bool // only the steps counted
}

// Work is what a client did.
type Work struct {
	Name    string
	Steps   int64
	Refused int64
}

// series are what levels off.
var series = []struct {
	name string
	unit string
	per  float64
	bar  bool
	of   func(s Sample) float64
}{
	{"memory without mapped files", "MiB", 1 << 20, true,
		func(s Sample) float64 { return s.AnonBytes }},
	{"Go heap in use", "MiB", 1 << 20, true, func(s Sample) float64 { return s.HeapBytes }},
	{"goroutines", "", 1, true, func(s Sample) float64 { return s.Goroutines }},
	{"threads", "", 1, true, func(s Sample) float64 { return s.Threads }},
	{"descriptors", "", 1, true, func(s Sample) float64 { return s.Descriptors }},
	{"rows stored", "M", 1e6, true, func(s Sample) float64 { return s.Rows }},
	{"segments", "", 1, true, func(s Sample) float64 { return s.Segments }},
	{"index", "MiB", 1 << 20, true, func(s Sample) float64 { return s.IndexBytes }},
	{"index per record", "B", 1, true, func(s Sample) float64 { return s.perRow(s.IndexBytes) }},
	{"bytes per record", "B", 1, true, func(s Sample) float64 { return s.perRow(s.SegmentBytes) }},
	{"log", "MiB", 1 << 20, true, func(s Sample) float64 { return s.LogBytes }},
	{"all files", "MiB", 1 << 20, true, func(s Sample) float64 { return s.DirBytes }},
	{"temporary files", "", 1, false, func(s Sample) float64 { return s.SpillFiles }},
	{"modules of plugins", "", 1, true, func(s Sample) float64 { return s.Modules }},
	{"instances of plugins", "", 1, false, func(s Sample) float64 { return s.Instances }},
	{"writers remembered", "", 1, true, func(s Sample) float64 { return s.Writers }},
}

// Figures holds what was found against bars.
func (r *Report) Figures() (l figure.List) {
	n := len(r.Samples)
	middle, last := r.Samples[n/3:2*n/3], r.Samples[2*n/3:]
	for _, s := range series {
		before, after := medianOf(middle, s.of), medianOf(last, s.of)
		l.Add(s.name+", last third", after/s.per, s.unit)
		switch {
		case !s.bar:
		case before == 0:
			l.Add(s.name+", last third / middle third", 0, figure.Ratio)
		default:
			l.AtMost(s.name+", last third / middle third", after/before, figure.Ratio, barLevel)
		}
	}
	l.AtMost("goroutines, after all clients / before them", r.After.Goroutines-r.Before.Goroutines,
		"more", r.mostLeft())
	l.AtMost("descriptors, after all clients / before them",
		r.After.Descriptors-r.Before.Descriptors, "more", leftDescriptors)
	l.Add("records put", float64(r.Records)/1e6, "M")
	l.Add("rows removed", r.After.Purged/1e6, "M")
	l.Add("answers compared", float64(r.Checked), "")
	l.Add("answers that came too late to be compared", float64(r.Unsure), "")
	l.Add("requests refused, to come again", float64(r.Refused), "")
	return l
}

// Left is an error when clients that are gone have left something in the node.
func (r *Report) Left() error {
	if more := r.After.Goroutines - r.Before.Goroutines; more > r.mostLeft() {
		return fmt.Errorf("the node has %.0f goroutines more than before its clients came", more)
	}
	if more := r.After.Descriptors - r.Before.Descriptors; more > leftDescriptors {
		return fmt.Errorf("the node has %.0f descriptors more than before its clients came", more)
	}
	return nil
}

func (r *Report) mostLeft() float64 {
	if r.Short {
		return leftGoroutines + idleWorkers
	}
	return leftGoroutines
}

func medianOf(samples []Sample, of func(Sample) float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	var all []float64
	for _, s := range samples {
		all = append(all, of(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Table writes what each client did.
func (r *Report) Table(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CLIENT\tSTEPS\tREFUSED")
	for _, w := range r.Workers {
		fmt.Fprintf(t, "%s\t%d\t%d\n", w.Name, w.Steps, w.Refused)
	}
	return t.Flush()
}

// Save writes all of it, samples included.
func (r *Report) Save(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
