package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/workload/thesis"
)

// dataDir holds the public data sets of the workload real.
const dataDir = "../../shared/data"

// dataMissing reports whether tests do without them, which those of a change to land must not.
func dataMissing() bool {
	_, err := os.Stat(dataDir)
	return err != nil && os.Getenv("PENTAD_DATA") != "required"
}

// TestRun measures few records of every workload, and two of them in all embedded systems: all
// answers are compared with the oracle's.
func TestRun(t *testing.T) {
	dir := publicDir(t)
	workloads := "meters,tsbs,tsbs-wide,daily,real"
	if dataMissing() {
		workloads = "meters,tsbs,tsbs-wide,daily"
	}
	out, _ := measure(t, dir, "--rows", "20000", "--real", dataDir, "--systems",
		"pentad,pebble,duckdb", "--workloads", workloads)
	if strings.Contains(out, "left out: workload") {
		t.Errorf("a workload was left out:\n%s", out)
	}
	var embedded []string
	for _, k := range allKinds() {
		if k.Embedded {
			embedded = append(embedded, k.Name)
		}
	}
	few := publicDir(t)
	out, names := measure(t, few, "--rows", "20000", "--systems", strings.Join(embedded, ","),
		"--workloads", "thesis,corrections")
	if ratio := "thesis: " + thesis.Selected + " pentad / with ids"; !names[ratio] {
		t.Errorf("no %s:\n%s", ratio, out)
	}
	pages := ""
	for _, d := range []string{dir, few} {
		page, err := os.ReadFile(filepath.Join(d, "run.html"))
		if err != nil {
			t.Fatal(err)
		}
		pages += string(page)
	}
	for _, name := range embedded {
		if !names["thesis: ingest "+name] || !strings.Contains(pages, name) {
			t.Errorf("%s was not measured, or is not in the page:\n%s", name, out)
		}
	}
	for _, l := range allLoads() {
		if !strings.Contains(pages, l.name) && !(l.name == "real" && dataMissing()) {
			t.Errorf("%s is not in a page", l.name)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "work-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	var again bytes.Buffer
	c := root(&again)
	c.SetArgs([]string{"report", filepath.Join(dir, "run.result.json")})
	if err := c.ExecuteContext(t.Context()); err != nil || !strings.Contains(again.String(), "|") {
		t.Errorf("report: %v\n%s", err, &again)
	}
}

// TestRunServers measures what is a server, where it is installed; the run says where it is not.
func TestRunServers(t *testing.T) {
	servers := []string{"pentad"}
	for _, k := range allKinds() {
		if !k.Embedded {
			servers = append(servers, k.Name)
		}
	}
	out, names := measure(t, publicDir(t), "--rows", "20000", "--workloads", "thesis", "--systems",
		strings.Join(servers, ","))
	for _, name := range servers {
		if names["thesis: ingest "+name] {
			continue
		}
		if !strings.Contains(out, name+" ") || !strings.Contains(out, "left out: ") {
			t.Errorf("%s was not measured, and nothing is said:\n%s", name, out)
		}
		t.Logf("not installed here: %s", name)
	}
}

// measure runs and returns what was said and the names of the figures.
func measure(t *testing.T, dir string, flags ...string) (string, map[string]bool) {
	t.Helper()
	var out bytes.Buffer
	c := root(&out)
	c.SetArgs(append([]string{"run", "--out", dir, "--budget", "4ms"}, flags...))
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	figures, err := figure.Load(filepath.Join(dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range figures {
		names[f.Name] = true
		if f.Value <= 0 {
			t.Errorf("%s is %v", f.Name, f.Value)
		}
	}
	return out.String(), names
}

// publicDir is a folder that servers with users of their own can enter.
func publicDir(t *testing.T) string {
	t.Helper()
	if err := os.MkdirAll("out", 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("out", "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRunNamesWhatThereIs(t *testing.T) {
	f := func(flag, value, want string) {
		t.Helper()
		c := root(new(bytes.Buffer))
		c.SetArgs([]string{"run", flag, value, "--out", t.TempDir()})
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%s %s: %v", flag, value, err)
		}
	}
	f("--systems", "oracle", `no system "oracle"; there are pentad, `)
	f("--workloads", "oracle", `no workload "oracle"; there are meters, `)
}

// TestRunWithoutRealData goes on, and says what is missing.
func TestRunWithoutRealData(t *testing.T) {
	var out bytes.Buffer
	c := root(&out)
	c.SetArgs([]string{"run", "--workloads", "real,daily", "--rows", "5000", "--systems", "pentad",
		"--out", publicDir(t), "--budget", "10ms"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `left out: workload real: no data in ""`) {
		t.Errorf("nothing is said:\n%s", &out)
	}
}

func TestProfile(t *testing.T) {
	dir := t.TempDir()
	for _, query := range []string{"Q2", ingest} {
		var out bytes.Buffer
		c := root(&out)
		c.SetArgs([]string{"profile", "--query", query, "--rows", "30000", "--for", "200ms",
			"--out",
			dir})
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		if !strings.Contains(out.String(), "profile-"+query+".pprof written") {
			t.Errorf("%s: no profile:\n%s", query, &out)
		}
	}
	c := root(new(bytes.Buffer))
	c.SetArgs([]string{"profile", "--query", "Q99", "--rows", "100000", "--out", dir})
	if err := c.ExecuteContext(t.Context()); err == nil ||
		!strings.Contains(err.Error(), `no query "Q99"; there are ingest, Q1`) {
		t.Errorf("an unknown query: %v", err)
	}
}

// TestKeptRunIsMeasuredAgain runs twice with the data kept: figures are of the second run.
func TestKeptRunIsMeasuredAgain(t *testing.T) {
	dir := publicDir(t)
	for range 2 {
		var out bytes.Buffer
		c := root(&out)
		c.SetArgs([]string{"run", "--workloads", "daily", "--rows", "5000", "--systems", "pentad",
			"--out", dir, "--budget", "10ms", "--keep"})
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "M records/s") {
			t.Errorf("nothing is measured:\n%s", &out)
		}
	}
}
