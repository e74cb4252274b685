package main

import (
	"slices"
	"testing"

	"github.com/pentad-db/pentad/bench/workload"
)

// TestQueriesHaveRows holds against every workload that its queries find something: what is asked
// of boxes without rows measures nothing. High loads of a single host may be none.
func TestQueriesHaveRows(t *testing.T) {
	const few = 3 // boxes of a query that may be empty
	for _, l := range allLoads() {
		if l.name == "real" && dataMissing() || l.name == "tsbs-wide" { // it asks what tsbs asks
			continue
		}
		rows := l.rows / 4
		if l.name == "real" { // what it asks for is in the files from a size on
			rows = l.rows
		}
		w, err := l.make(rows, dataDir)
		if err != nil {
			t.Fatal(err)
		}
		s := w.NewSurvey()
		for i, p := range w.Phases {
			if err := s.Add(p); err != nil {
				t.Fatal(err)
			}
			queries := p.Queries(s)
			answers, err := workload.Answers(w.Phases[:i+1], queries)
			if err != nil {
				t.Fatal(err)
			}
			for j, q := range queries {
				var found []uint64
				empty := 0
				for _, a := range answers[j] {
					found = append(found, a.Rows)
					if a.Rows == 0 {
						empty++
					}
				}
				if slices.Sort(found); empty > few {
					t.Errorf("%s %s: %s: rows %d", l.name, p.Name, q, found)
				} else if found[0] != found[len(found)-1] {
					t.Logf("%s %s: %s: rows %d", l.name, p.Name, q, found)
				}
			}
		}
	}
}
