package bench

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/load"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
)

// benchSummary is what a summary says besides what was measured.
type benchSummary struct {
	rate   float64                   // asked for: records (write) or queries per second; 0: none
	paced  bool                      // requests had a time at which they were due
	cid    *int32                    // where the records are; nil: nothing was stored, or in many
	sizes  []bool                    // by kind: the payload bytes are known
	unsent func(time.Duration) int64 // may be nil

	// What the run left.
	unsentCount int64
	records     int64 // that travelled or were only counted
}

// progressLine is a run at one time, in columns that stay where they are.
func progressLine(p load.Progress) string {
	p50, p99 := "-", "-"
	if !p.Idle {
		p50, p99 = output.Duration(p.P50), output.Duration(p.P99)
	}
	return fmt.Sprintf("%5.0f s %11s requests %8s/s %13s records %11s/s  p50 %8s  p99 %8s  "+
		"%s errors  lag %s", p.Elapsed.Seconds(),
		output.Thousands(p.Requests), output.Thousands(int64(p.RequestRate+0.5)),
		output.Thousands(p.Records), output.Thousands(int64(p.Rate+0.5)), p50, p99,
		output.Thousands(p.Errors), lagText(p.Lag))
}

// lagText leaves out what is only the precision of timers.
func lagText(lag time.Duration) string {
	if lag < time.Millisecond {
		return "0"
	}
	return output.Duration(lag)
}

// showBench writes the summary: tables for people, else one row per kind of request and, where
// there are several, one for all.
func (a *app) showBench(r load.Report, s *benchSummary) error {
	rows := r.Kinds
	if len(rows) > 1 {
		all := r.All
		all.Counted = 0 // a sum of what travelled and what did not would say nothing
		rows = append(rows[:len(rows):len(rows)], all)
		s.sizes = append(s.sizes, slices.Contains(s.sizes, true))
	}
	format, err := a.Format()
	if err != nil {
		return err
	}
	if format == output.Table {
		return a.showBenchTables(r, rows, s)
	}
	w, err := a.Writer(len(rows) == 1, benchColumns()...)
	if err != nil {
		return err
	}
	for i := range rows {
		values, err := s.row(r, &rows[i], s.sizes[i])
		if err != nil {
			return err
		}
		if err := w.Row(values...); err != nil {
			return err
		}
	}
	return w.Close()
}

func benchColumns() []output.Column {
	var columns []output.Column
	for _, name := range []string{"kind", "cid", "duration", "requests", "failed", "retries",
		"errors", "error_kinds", "rate", "unsent", "max_lag", "requests_per_s", "records",
		"records_per_s", "payload_bytes", "payload_bytes_per_s",
		"mean", "p50", "p90", "p99", "p999", "max", "service_mean", "service_p50", "service_p90",
		"service_p99", "service_p999", "service_max"} {
		columns = append(columns, cli.Left(name))
	}
	return columns
}

// row is one kind of request for programs.
func (s *benchSummary) row(r load.Report, k *load.Summary, sized bool) ([]output.Value, error) {
	kinds, err := json.Marshal(k.Errors)
	if err != nil {
		return nil, err
	}
	cid := output.Null()
	if s.cid != nil {
		cid = output.Int(*s.cid)
	}
	bytes, bytesRate := output.Null(), output.Null()
	if sized {
		bytes = output.Bytes(k.PayloadBytes)
		bytesRate = output.Computed(perSecond(k.PayloadBytes, r.Duration))
	}
	records := k.Records + k.Counted // one of them, in one kind
	row := []output.Value{output.Text(k.Kind), cid, output.Span(r.Duration),
		output.Count(k.Requests), output.Count(k.Failed), output.Count(k.Retries),
		output.Count(sum(k.Errors)), output.Raw(kinds), output.Float(s.rate),
		output.Count(s.unsentCount), output.Span(r.MaxLag),
		output.Computed(perSecond(k.Requests-k.Failed, r.Duration)), output.Count(records),
		output.Computed(perSecond(records, r.Duration)), bytes, bytesRate}
	return append(append(row, latencyCells(k.Latency)...), latencyCells(k.Service)...), nil
}

func perSecond(n int64, took time.Duration) float64 {
	return float64(n) / max(took.Seconds(), 1e-9)
}

func sum(counts map[string]int64) (total int64) {
	for _, n := range counts {
		total += n
	}
	return total
}

func latencyCells(l load.Latencies) []output.Value {
	cells := make([]output.Value, 0, 6)
	for _, d := range []time.Duration{l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max} {
		if l.Count == 0 {
			cells = append(cells, output.Null())
			continue
		}
		cells = append(cells, output.Span(d))
	}
	return cells
}

// showBenchTables writes what fits the width of a terminal: what was done, and how long it took.
func (a *app) showBenchTables(r load.Report, rows []load.Summary, s *benchSummary) error {
	columns := []output.Column{cli.Left("kind"), cli.Right("requests"), cli.Right("failed"),
		cli.Right("retries"), cli.Right("records"), cli.Right("records/s"), cli.Right("payload/s"),
		cli.Right("requests/s"), cli.Right("duration")}
	if s.cid != nil {
		columns = append(columns, cli.Right("cid"))
	}
	w, err := a.Writer(false, columns...)
	if err != nil {
		return err
	}
	for i := range rows {
		k := &rows[i]
		size := output.Null()
		if s.sizes[i] {
			size = output.Bytes(int64(perSecond(k.PayloadBytes, r.Duration)))
		}
		row := []output.Value{output.Text(k.Kind), output.Count(k.Requests),
			output.Count(k.Failed), output.Count(k.Retries), output.Count(k.Records + k.Counted),
			rounded(perSecond(k.Records+k.Counted, r.Duration)), size,
			rounded(perSecond(k.Requests-k.Failed, r.Duration)), output.Span(r.Duration)}
		if s.cid != nil {
			row = append(row, output.Int(*s.cid))
		}
		if err := w.Row(row...); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return a.showLatencies(r, rows, s)
}

// rounded is a rate in a table: a tenth matters only when it is small.
func rounded(rate float64) output.Value {
	if rate >= 100 {
		return output.Count(int64(rate + 0.5))
	}
	return output.Text(fmt.Sprintf("%.1f", rate))
}

func (a *app) showLatencies(r load.Report, rows []load.Summary, s *benchSummary) error {
	fmt.Fprintln(a.Stdout)
	w, err := a.Writer(false, cli.Left("latency"), cli.Right("mean"), cli.Right("p50"),
		cli.Right("p90"), cli.Right("p99"), cli.Right("p99.9"), cli.Right("max"))
	if err != nil {
		return err
	}
	for i := range rows {
		k := &rows[i]
		row := append([]output.Value{output.Text(k.Kind)}, latencyCells(k.Latency)...)
		if err := w.Row(row...); err != nil {
			return err
		}
		if !s.paced {
			continue
		}
		row = append([]output.Value{output.Text(k.Kind + ", once sent")},
			latencyCells(k.Service)...)
		if err := w.Row(row...); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if s.paced {
		fmt.Fprintf(a.Stdout, "\nat most %s behind schedule", output.Duration(r.MaxLag))
		if s.unsentCount > 0 {
			fmt.Fprintf(a.Stdout, "; %s requests were due and not sent",
				output.Thousands(s.unsentCount))
		}
		fmt.Fprintln(a.Stdout)
	}
	if len(r.All.Errors) > 0 {
		names := errorNames(r.All.Errors)
		for i, name := range names {
			names[i] = name + " " + output.Thousands(r.All.Errors[name])
		}
		fmt.Fprintf(a.Stdout, "errors: %s\n", strings.Join(names, ", "))
	}
	return nil
}
