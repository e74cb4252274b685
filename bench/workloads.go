package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/bench/workload/corrections"
	"github.com/pentad-db/pentad/bench/workload/daily"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/bench/workload/real"
	"github.com/pentad-db/pentad/bench/workload/thesis"
	"github.com/pentad-db/pentad/bench/workload/tsbs"
)

// load is a workload that can be made at any size.
type load struct {
	name string
	rows int // of a run beside many peers
	make func(rows int, realDir string) (*workload.Workload, error)
}

// allLoads returns the workloads, the standard one first.
func allLoads() []load {
	return []load{
		{"meters", 3_000_000, func(rows int, _ string) (*workload.Workload, error) {
			return meters.Sized(rows).Workload(), nil
		}},
		{"thesis", 2_000_000, func(rows int, _ string) (*workload.Workload, error) {
			return thesis.Sized(rows).Workload(), nil
		}},
		{"tsbs", 1_872_000, func(rows int, _ string) (*workload.Workload, error) {
			return tsbs.Sized(rows).Workload(), nil
		}},
		{"tsbs-wide", 28_800_000, func(rows int, _ string) (*workload.Workload, error) {
			return tsbs.Wide(rows).Workload(), nil
		}},
		{"daily", 1_500_000, func(rows int, _ string) (*workload.Workload, error) {
			return daily.Sized(rows).Workload(), nil
		}},
		{"corrections", 1_500_000, func(rows int, _ string) (*workload.Workload, error) {
			return corrections.Sized(rows).Workload(), nil
		}},
		{"real", 1_500_000, func(rows int, dir string) (*workload.Workload, error) {
			return real.Config{Dir: dir, Rows: rows, Seed: 6}.Workload()
		}},
	}
}

// defaultLoads are the workloads of a run that names none. What tsbs-wide shows needs its size.
func defaultLoads() string { return strings.ReplaceAll(loadNames(), "tsbs-wide,", "") }

func loadNames() string {
	var names []string
	for _, l := range allLoads() {
		names = append(names, l.name)
	}
	return strings.Join(names, ",")
}

// chooseLoads returns the workloads of a list of names.
func chooseLoads(names string) ([]load, error) {
	var out []load
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(allLoads(), func(l load) bool { return l.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no workload %q; there are %s", name,
				strings.ReplaceAll(loadNames(), ",", ", "))
		}
		out = append(out, allLoads()[i])
	}
	return out, nil
}
