package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/report"
)

const (
	own      = "pentad"
	barsLoad = "meters" // the workload that the bars are about

	barSpread    = 6   // times
	barDuckRatio = 1.2 // times DuckDB's ingest
)

// bar is what is promised of a query.
type bar struct {
	query  string
	faster float64 // how many times as long as pentad the best peer takes at least
	slower float64 // or how many times as long as it pentad takes at most
	// against names the family of peers that count; empty: all of them.
	against string
}

// hold returns the bar and whether a ratio of peer to pentad holds it.
func (b bar) hold(ratio float64) (text string, holds bool) {
	if b.slower > 0 {
		text = fmt.Sprintf(">= %s (1 / %g)", report.Times(1/b.slower), b.slower)
		return text, ratio*b.slower >= 1
	}
	return ">= " + report.Times(b.faster), ratio >= b.faster
}

// promised are the bars, in the order of the queries.
func promised() []bar {
	return []bar{{query: "Q1", slower: 1.3, against: "pebble"},
		{query: "Q2", slower: 2, against: "pebble"}, {query: "Q3", faster: 5},
		{query: "Q4", faster: 4}, {query: "Q5", faster: 5}, {query: "Q6", faster: 1.5},
		{query: "Q7", faster: 12}, {query: "Q8", faster: 4}, {query: "Q9", faster: 25},
		{query: "Q10", faster: 6}}
}

// counts reports whether a system is one that bars are about: not pentad itself, nor those that
// have the data in one order of keys only; Pebble stands for these.
func counts(name string) bool {
	return name != own && !strings.HasPrefix(name, own+"-") && name != "bbolt" &&
		name != "badger" && name != "redis"
}

func barsCommand(out io.Writer) *cobra.Command {
	run, dir := filepath.Join("out", "run.json"), "out"
	c := &cobra.Command{
		Use:   "bars",
		Short: "Check a run of the standard workload against the promised ratios",
		Long: `Read the figures that "bench run" left, print how many times as long as pentad every peer took for
each query, and check pentad against the fastest of them. Ratios are those of runs that followed one
another, so the best peer is the one with the least ratio. Q1 and Q2, which a store of ordered keys
answers from neighbouring keys, are compared with Pebble. What was not measured has no bar.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			figures, err := figure.Load(run)
			if err != nil {
				return err
			}
			return holdBars(out, figures, filepath.Join(dir, "bars.json"))
		},
	}
	c.Flags().StringVar(&run, "run", run, "figures of a run")
	c.Flags().StringVar(&dir, "out", dir, "folder of bars.json")
	return c
}

// measured looks figures up.
type measured map[string]float64

func (m measured) time(query, system string) float64 {
	return m[barsLoad+": "+query+" "+system]
}

// ratio is how many times as long as pentad a system took.
func (m measured) ratio(query, system string) float64 {
	return m[barsLoad+": "+query+" "+system+" / "+own]
}

func holdBars(out io.Writer, figures figure.List, path string) error {
	m := measured{}
	var systems []string
	for _, f := range figures {
		m[f.Name] = f.Value
		if name, ok := strings.CutPrefix(f.Name, barsLoad+": ingest "); ok &&
			!strings.HasPrefix(name, "until ready ") {
			systems = append(systems, name)
		}
	}
	if !slices.Contains(systems, own) {
		return fmt.Errorf("the run has no figures of %s in the workload %s; make one with "+
			"bench run --workloads %s", own, barsLoad, barsLoad)
	}
	if err := m.all(out, systems); err != nil {
		return err
	}
	var held figure.List
	if err := m.queries(out, systems, &held); err != nil {
		return err
	}
	queries := len(held)
	m.rest(systems, &held)
	fmt.Fprintln(out)
	if err := held[queries:].Table(out); err != nil {
		return err
	}
	missed := 0
	for _, f := range held {
		if !*f.Holds {
			missed++
		}
	}
	if _, err := fmt.Fprintf(out, "\n%d of %d bars hold; %s written\n", len(held)-missed, len(held),
		path); err != nil {
		return err
	}
	return held.Save(path)
}

// all prints how many times as long as pentad everybody took.
func (m measured) all(out io.Writer, systems []string) error {
	peers := slices.DeleteFunc(slices.Clone(systems), func(s string) bool { return s == own })
	t := table{append([]string{"times as long", own}, peers...)}
	for _, b := range promised() {
		cells := []string{b.query, report.Duration(m.time(b.query, own))}
		for _, s := range peers {
			cells = append(cells, report.Times(m.ratio(b.query, s)))
		}
		t.add(cells...)
	}
	return t.write(out)
}

// queries prints the best peer of each query and adds the bars.
func (m measured) queries(out io.Writer, systems []string, held *figure.List) error {
	t := table{{"", own, "best peer", "", "times as long", "bar", "holds"}}
	for _, b := range promised() {
		best := ""
		for _, s := range systems {
			if r := m.ratio(b.query, s); counts(s) && strings.HasPrefix(s, b.against) && r > 0 &&
				(best == "" || r < m.ratio(b.query, best)) {
				best = s
			}
		}
		if best == "" {
			t.add(b.query, report.Duration(m.time(b.query, own)), "not in this run")
			continue
		}
		ratio, verdict := m.ratio(b.query, best), "NO"
		text, holds := b.hold(ratio)
		if holds {
			verdict = "yes"
		}
		t.add(b.query, report.Duration(m.time(b.query, own)), best,
			report.Duration(m.time(b.query, best)), report.Times(ratio), text, verdict)
		if b.slower > 0 {
			held.AtMost(fmt.Sprintf("%s: %s / %s", b.query, own, best), 1/ratio, figure.Ratio,
				b.slower)
			continue
		}
		held.AtLeast(fmt.Sprintf("%s: %s / %s", b.query, best, own), ratio, figure.Ratio,
			b.faster)
	}
	fmt.Fprintln(out)
	return t.write(out)
}

// rest adds the bars that are not about one query.
func (m measured) rest(systems []string, held *figure.List) {
	settled := func(s string) float64 { return m[barsLoad+": ingest until ready "+s] }
	if spread := m[spreadName]; spread > 0 {
		held.AtMost(spreadName, spread, figure.Ratio, barSpread)
	}
	held.AtLeast("durable ingest, sealed and merged", settled(own), "M records/s", barInside)
	if slices.Contains(systems, "duckdb") {
		held.AtLeast("the same / duckdb", settled(own)/settled("duckdb"), figure.Ratio,
			barDuckRatio)
	}
	held.AtMost("bytes on disk per record", m[barsLoad+": bytes per record "+own], "B", barBytes)
}

// spreadName is the figure of how evenly rows are found: what the dearest query costs per row that
// it returns, to the cheapest.
const spreadName = barsLoad + ": us per returned row, dearest / cheapest of Q3 to Q7 " + own

// perRow are the queries of the standard workload whose answers are many rows, and what pentad took
// per row.
type perRow struct {
	cheapest, dearest     string
	cheapestUs, dearestUs float64
}

// rowsOf returns what a row of Q3 to Q7 costs pentad; false when r is not about that.
func rowsOf(r *report.Result) (p perRow, ok bool) {
	at := slices.IndexFunc(r.Systems, func(s report.System) bool { return s.Name == own })
	if at < 0 || r.Workload != barsLoad {
		return p, false
	}
	for _, q := range r.Queries {
		if !slices.Contains([]string{"Q3", "Q4", "Q5", "Q6", "Q7"}, q.Name) || q.Rows == 0 {
			continue
		}
		us := q.Times[at].MedianUs / q.Rows
		if p.cheapest == "" || us < p.cheapestUs {
			p.cheapest, p.cheapestUs = q.Name, us
		}
		if p.dearest == "" || us > p.dearestUs {
			p.dearest, p.dearestUs = q.Name, us
		}
	}
	return p, p.cheapestUs > 0
}

func (p perRow) spread() float64 { return p.dearestUs / p.cheapestUs }

// String says it in a line.
func (p perRow) String() string {
	return fmt.Sprintf("us per returned row over Q3 to Q7, %s: %.3f (%s) to %.3f (%s), spread %s",
		own, p.cheapestUs, p.cheapest, p.dearestUs, p.dearest, report.Times(p.spread()))
}
