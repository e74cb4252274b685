package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/bench/results"
)

func TestChooseMeasurements(t *testing.T) {
	all, err := chooseMeasurements("")
	if err != nil || len(all) != len(results.List()) {
		t.Errorf("%d measurements, %v", len(all), err)
	}
	some, err := chooseMeasurements("cold,feed")
	if err != nil || len(some) != 2 || some[0].Name != "cold" || some[1].Name != "feed" {
		t.Errorf("%+v, %v", some, err)
	}
	if _, err := chooseMeasurements("nothing"); err == nil ||
		!strings.Contains(err.Error(), `"nothing"`) || !strings.Contains(err.Error(), "cold") {
		t.Errorf("an unknown name: %v", err)
	}
}

// TestMeasurementsAreCommands fails when a flag or a command of a measurement does not exist.
func TestMeasurementsAreCommands(t *testing.T) {
	for _, m := range results.List() {
		if m.Test {
			continue
		}
		c, rest, err := root(new(bytes.Buffer)).Find(m.Args)
		if err != nil || c.Name() != m.Args[0] {
			t.Errorf("%s: no command %q: %v", m.Name, m.Args[0], err)
			continue
		}
		if err := c.ParseFlags(append(rest, "--out", "out")); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if c.Name() != "run" {
			continue
		}
		for flag, choose := range map[string]func(string) error{
			"workloads": func(s string) error { _, err := chooseLoads(s); return err },
			"systems":   func(s string) error { _, err := chooseKinds(s); return err },
		} {
			if err := choose(c.Flag(flag).Value.String()); err != nil && cgoMissing == "" {
				t.Errorf("%s: --%s: %v", m.Name, flag, err)
			}
		}
	}
}

func TestReportFolder(t *testing.T) {
	dir := t.TempDir()
	document, readme := filepath.Join(dir, "RESULTS.md"), filepath.Join(dir, "README.md")
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(readme, text, 0o644); err != nil {
		t.Fatal(err)
	}
	c := root(new(bytes.Buffer))
	c.SetArgs([]string{"report", "results", "--document", document, "--readme", readme})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for written, kept := range map[string]string{document: "RESULTS.md", readme: "../README.md"} {
		got, err := os.ReadFile(written)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what is written; run make bench-results", kept)
		}
	}
}
