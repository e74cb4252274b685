package node

import (
	"testing"
	"time"
)

// Acqs in the future are a problem that says for how long.
func TestAheadProblem(t *testing.T) {
	for ns, want := range map[int64]bool{0: false, aheadNs: false, int64(time.Hour): true} {
		if p, got := aheadProblem("group 1", ns); got != want {
			t.Errorf("%v: %+v", time.Duration(ns), p)
		}
	}
}

func TestClockIsPublished(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	a.expect("GET", "/metrics", "", 200, "pentad_store_acq_ahead_seconds 0",
		"pentad_clock_step_seconds 0", "pentad_clock_steps_total 0", "pentad_clock_off 0",
		"pentad_node_feeds 0")
}
