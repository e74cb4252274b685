package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/cluster-test/rounds"
)

// TestGrowth grows by days, and in make test-long by devices, too.
func TestGrowth(t *testing.T) {
	for by, fixed := range map[string][]string{
		byDays:    {"Q1", "Q3", "Q4", "Q5", "Q6", "Q8"},
		byDevices: {"Q1", "Q2", "Q3", "Q6", "Q8"},
	} {
		if by == byDevices && !rounds.Long() {
			continue
		}
		out, figures := command(t, "growth", "--sizes", "6e4,12e4,18e4", "--by", by, "--budget",
			"5ms", "--systems", "pentad,pebble")
		for _, name := range fixed {
			for _, line := range strings.Split(out, "\n") {
				if strings.HasPrefix(line, name+" ") && strings.Contains(line, "grows") {
					t.Errorf("by %s: %s", by, line)
				}
			}
		}
		for _, name := range []string{"Q1 pebble, 0.18 M / 0.06 M", "Q9 pentad, 0.12 M / 0.06 M"} {
			if f := figures[name]; f.Unit != figure.Ratio || f.Value <= 0 {
				t.Errorf("by %s: %s is %+v", by, name, f)
			}
		}
		if f := figures["Q5 pentad, 0.18 M: blocks opened"]; f.Value < 1 {
			t.Errorf("by %s: %+v", by, f)
		}
	}
}

func TestGrowthNamesWhatIsWrong(t *testing.T) {
	f := func(flag, value, want string) {
		t.Helper()
		c := root(new(bytes.Buffer))
		c.SetArgs([]string{"growth", flag, value, "--out", t.TempDir()})
		err := c.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %s: %v", flag, value, err)
		}
	}
	f("--sizes", "5e6,x", `"x" is no number of records`)
	f("--sizes", "5e6,-1", `"-1" is no number of records`)
	f("--sizes", "5e6,5e6", "give rising numbers")
	f("--by", "hours", "take days or devices")
}
