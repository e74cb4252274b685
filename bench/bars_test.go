package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/report"
)

// runFigures are the figures of a run in which every peer takes ten times as long as pentad, but
// those that others say.
func runFigures(others map[string]float64, peers ...string) figure.List {
	var l figure.List
	value := func(name string, usual float64) float64 {
		if v, ok := others[name]; ok {
			return v
		}
		return usual
	}
	for _, s := range append([]string{own}, peers...) {
		l.Add("meters: ingest "+s, value("ingest "+s, 1), "M records/s")
		l.Add("meters: ingest until ready "+s, value("settled "+s, 1), "M records/s")
		l.Add("meters: bytes per record "+s, value("bytes "+s, 9), "B")
		for _, b := range promised() {
			times := value(b.query+" "+s, 10)
			if s == own {
				l.Add("meters: "+b.query+" "+s, 100, "us")
				continue
			}
			l.Add("meters: "+b.query+" "+s, 100*times, "us")
			l.Add("meters: "+b.query+" "+s+" / pentad", times, figure.Ratio)
		}
	}
	l.Add(spreadName, value("spread", 5), "times")
	return l
}

// hold returns what is said, and which bars hold.
func hold(t *testing.T, l figure.List) (string, map[string]bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bars.json")
	var out bytes.Buffer
	if err := holdBars(&out, l, path); err != nil {
		t.Fatal(err)
	}
	saved, err := figure.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	holds := map[string]bool{}
	for _, f := range saved {
		holds[f.Name] = *f.Holds
	}
	return out.String(), holds
}

func TestBars(t *testing.T) {
	f := func(name string, holds bool, others map[string]float64) {
		t.Helper()
		out, got := hold(t, runFigures(others, "pebble", "pebble-3", "bbolt", "duckdb",
			"pentad-http"))
		if is, ok := got[name]; !ok || is != holds {
			t.Errorf("%q holds: %v, there: %v\n%s", name, is, ok, out)
		}
	}
	f("Q1: pentad / pebble", true, map[string]float64{"Q1 pebble": 0.8, "Q1 duckdb": 0.1})
	f("Q1: pentad / pebble-3", false, map[string]float64{"Q1 pebble-3": 0.7})
	f("Q2: pentad / pebble", true, map[string]float64{"Q2 pebble": 0.51})
	f("Q3: duckdb / pentad", false, map[string]float64{"Q3 duckdb": 4.9})
	f("Q4: pebble / pentad", true, map[string]float64{"Q4 bbolt": 1, "Q4 pentad-http": 1})
	f("Q9: pebble / pentad", false, nil)
	f("Q9: duckdb / pentad", true, map[string]float64{"Q9 duckdb": 26, "Q9 pebble": 30,
		"Q9 pebble-3": 30})
	f(spreadName, true, nil)
	f(spreadName, false, map[string]float64{"spread": 6.5})
	f("durable ingest, sealed and merged", false, map[string]float64{"settled pentad": 0.8})
	f("the same / duckdb", false, nil)
	f("the same / duckdb", true, map[string]float64{"settled duckdb": 0.8})
	f("bytes on disk per record", false, map[string]float64{"bytes pentad": 10.1})
}

func TestBarsOfFewSystems(t *testing.T) {
	out, holds := hold(t, runFigures(nil, "duckdb"))
	if !strings.Contains(out, "not in this run") || len(holds) != 8+4 {
		t.Errorf("%d bars:\n%s", len(holds), out)
	}
	var none bytes.Buffer
	err := holdBars(&none, figure.List{}, filepath.Join(t.TempDir(), "bars.json"))
	if err == nil || !strings.Contains(err.Error(), "no figures of pentad") {
		t.Errorf("a run of nothing: %v", err)
	}
}

func TestRowsOf(t *testing.T) {
	r := report.Result{Workload: "meters", Systems: []report.System{{Name: "x"}, {Name: own}}}
	for name, us := range map[string]float64{"Q2": 1, "Q3": 200, "Q5": 50, "Q7": 400, "Q9": 1e6} {
		r.Queries = append(r.Queries, report.Query{Name: name, Rows: 1000,
			Times: []report.Time{{MedianUs: 1}, {MedianUs: us}}})
	}
	p, ok := rowsOf(&r)
	if !ok || p.cheapest != "Q5" || p.dearest != "Q7" || p.spread() != 8 ||
		!strings.Contains(p.String(), "0.050 (Q5) to 0.400 (Q7), spread 8.00x") {
		t.Errorf("%v, %s", ok, p)
	}
	r.Workload = "thesis"
	if _, ok := rowsOf(&r); ok {
		t.Error("another workload has a spread")
	}
}
