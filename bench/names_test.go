package main

import (
	"math"
	"strings"
	"testing"
)

// TestNames runs the whole command on few devices: every answer is compared with a loop, and every
// bar of what is installed is there.
func TestNames(t *testing.T) {
	out, figures := command(t, "names", "--devices", "3000", "--each", "6", "--rounds", "3")
	for _, name := range []string{"registration: names and descriptions over HTTP",
		"selection by type and rectangle", "scenario by selector, to ids given",
		"scenario in streets by selector, to ids given"} {
		if f := figures[name]; f.Bar == nil || !(f.Value > 0) || math.IsInf(f.Value, 1) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for _, kind := range registryKinds() {
		_, measured := figures["scenario: "+kind.Name]
		_, again := figures["scenario in streets: "+kind.Name]
		if measured == strings.Contains(out, "left out: "+kind.Name) || again != measured {
			t.Errorf("%s is measured: %v; said:\n%s", kind.Name, measured, out)
		}
	}
}
