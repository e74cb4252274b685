// Package report turns what a run measured into a table for terminals and a page for browsers,
// which needs no network.
//
// It measures nothing. Its main type is [Result].
package report

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	_ "embed" // the page
)

// Result is what one run of several systems measured. The first system is the one that the others
// are compared with.
type Result struct {
	Title   string
	Machine string
	When    time.Time
	Records int64
	Systems []System
	Queries []Query
	LeftOut []string // systems that were not measured, and why
}

// System is one system and how it took the load.
type System struct {
	Name, About, Durability string
	Ingest                  float64 // M records/s, acknowledged
	Settled                 float64 // M records/s, until it was ready for queries
	BytesPerRecord          float64
}

// Query is one query and its times, by system.
type Query struct {
	Name, About string
	Count       bool // only the number of rows was asked for
	Rows        float64
	Times       []Time
}

// Time summarises repeated measurements.
type Time struct {
	MedianUs, MinUs, MaxUs float64
	Runs                   int
}

// Summarise returns the median, the least and the greatest.
func Summarise(us []float64) Time {
	if len(us) == 0 {
		return Time{MedianUs: math.NaN(), MinUs: math.NaN(), MaxUs: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(us))
	return Time{sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1], len(sorted)}
}

// Ratio is how many times as long a system takes as the first.
func (q Query) Ratio(system int) float64 { return q.Times[system].MedianUs / q.Times[0].MedianUs }

// Duration writes microseconds in the unit that suits.
func Duration(us float64) string {
	switch {
	case math.IsNaN(us):
		return "-"
	case us < 1000:
		return fmt.Sprintf("%.3g us", us)
	case us < 1e6:
		return fmt.Sprintf("%.3g ms", us/1e3)
	default:
		return fmt.Sprintf("%.3g s", us/1e6)
	}
}

// Times writes a ratio as people say it.
func Times(ratio float64) string {
	switch {
	case math.IsNaN(ratio):
		return "-"
	case ratio >= 100:
		return fmt.Sprintf("%.0fx", ratio)
	case ratio >= 10:
		return fmt.Sprintf("%.1fx", ratio)
	default:
		return fmt.Sprintf("%.2fx", ratio)
	}
}

// Table writes the result for a terminal: medians, and in brackets how many times as long as the
// first system.
func (r *Result) Table(w io.Writer) error {
	var text bytes.Buffer
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	header, ingest := []string{""}, []string{"ingest, M records/s"}
	size := []string{"bytes per record"}
	for _, s := range r.Systems {
		header = append(header, s.Name)
		ingest = append(ingest, fmt.Sprintf("%.3f", s.Ingest))
		size = append(size, fmt.Sprintf("%.1f", s.BytesPerRecord))
	}
	for _, line := range [][]string{header, ingest, size} {
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	for _, q := range r.Queries {
		line := []string{fmt.Sprintf("%s, %.0f rows", q.Name, q.Rows)}
		for i, x := range q.Times {
			cell := Duration(x.MedianUs)
			if i > 0 {
				cell += " (" + Times(q.Ratio(i)) + ")"
			}
			line = append(line, cell)
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

//go:embed page.html
var page string

// SaveHTML writes the result as one page.
func (r *Result) SaveHTML(path string) error {
	t, err := template.New("page").Funcs(template.FuncMap{"duration": Duration, "times": Times,
		"bars": bars}).Parse(page)
	if err != nil {
		return fmt.Errorf("BUG: page: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, r); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// bar is one bar of a chart: a system's time as a multiple of the first, on a logarithmic scale.
type bar struct {
	Name, Label string
	Width       float64 // percent
	First       bool
}

func bars(r *Result, q Query) []bar {
	widest := 1.0
	for _, q := range r.Queries {
		for i := range q.Times {
			if ratio := q.Ratio(i); !math.IsNaN(ratio) {
				widest = max(widest, ratio, 1/ratio)
			}
		}
	}
	var out []bar
	for i, t := range q.Times {
		ratio := q.Ratio(i)
		if math.IsNaN(ratio) {
			continue
		}
		// From a twentieth, so that the shortest is still seen.
		width := 5 + 95*(math.Log(ratio)+math.Log(widest))/(2*math.Log(widest)+1e-9)
		out = append(out, bar{r.Systems[i].Name, Duration(t.MedianUs) + "  " + Times(ratio), width,
			i == 0})
	}
	return out
}
