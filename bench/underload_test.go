package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/bench/figure"
)

// command runs a command on few records and returns what it says and its figures; nothing is
// left behind.
func command(t *testing.T, name string, flags ...string) (string, map[string]figure.Figure) {
	t.Helper()
	dir := t.TempDir()
	var out bytes.Buffer
	c := root(&out)
	c.SetArgs(append([]string{name, "--out", dir}, flags...))
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	list, err := figure.Load(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]figure.Figure{}
	for _, f := range list {
		if _, twice := figures[f.Name]; twice {
			t.Errorf("%s comes twice", f.Name)
		}
		figures[f.Name] = f
	}
	if left, err := filepath.Glob(filepath.Join(dir, "work-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return out.String(), figures
}

func TestUnderload(t *testing.T) {
	out, figures := command(t, "underload", "--rows", "30000", "--budget", "20ms")
	for i := range 10 {
		ratio := figures[fmt.Sprintf("Q%d under load / idle", i+1)]
		if ratio.Value <= 0 || ratio.Bar == nil || *ratio.Bar != "<= 3" {
			t.Errorf("query %d: %+v", i+1, ratio)
		}
	}
	top, pace := figures["top ingest, acknowledged"],
		figures["records put under load, as planned: half the top acknowledged rate"]
	if top.Value <= 0 || pace.Value != top.Value/2 {
		t.Errorf("records are put at %v, the top is %v", pace.Value, top.Value)
	}
	if !strings.Contains(out, "of 10 medians more than triple under load") {
		t.Errorf("said:\n%s", out)
	}
}
