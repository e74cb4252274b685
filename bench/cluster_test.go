package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestCluster starts the processes of a cluster once for each short part.
func TestCluster(t *testing.T) {
	out, figures := command(t, "cluster", "--only", "commit,behind,distant", "--commit-records",
		"10000", "--mb", "2", "--rows", "80400", "--groups", "4", "--pentad", buildPentad(t))
	for i := range 10 {
		name := fmt.Sprintf("Q%d, of a node without copies / with all", i+1)
		if f := figures[name]; f.Value <= 0 || f.Unit != "ratio" {
			t.Errorf("%s: %+v\n%s", name, f, out)
		}
	}
	for name, unit := range map[string]string{
		"committed by three replicas in one process, without stores": "M records/s",
		"start after 2 MB were missed, until all are applied":        "s",
		"start with these 2 MB, until all are applied":               "s",
		"durable ingest through a node without copies":               "M records/s",
	} {
		if f := figures[name]; f.Value <= 0 || f.Unit != unit {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestClusterKnowsItsParts(t *testing.T) {
	c := root(new(strings.Builder))
	c.SetArgs([]string{"cluster", "--only", "nodes,nothing", "--out", t.TempDir()})
	if err := c.ExecuteContext(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "commit, idle, feed, freeze, behind, nodes, distant") {
		t.Errorf("%v", err)
	}
}
