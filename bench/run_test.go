package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun measures every system that this build has on few records: all answers are compared with
// the oracle's.
func TestRun(t *testing.T) {
	dir := publicDir(t)
	var out bytes.Buffer
	c := root(&out)
	c.SetArgs([]string{"run", "--rows", "60000", "--out", dir, "--budget", "50ms"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "run.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range allKinds() {
		if strings.Contains(out.String(), "left out: "+k.Name) {
			t.Logf("not installed here: %s", k.Name)
			continue
		}
		if strings.Count(string(page), ">"+k.Name+"<") != 11 || !strings.Contains(out.String(),
			k.Name) {
			t.Errorf("%s is in the page %d times, want 11: among the systems and with each query",
				k.Name,
				strings.Count(string(page), ">"+k.Name+"<"))
		}
	}
	if strings.Contains(string(page), "http") && strings.Contains(string(page), "src=") {
		t.Error("the page needs the network")
	}
	left, err := filepath.Glob(filepath.Join(dir, "work-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
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

func TestRunNamesUnknownSystems(t *testing.T) {
	c := root(new(bytes.Buffer))
	c.SetArgs([]string{"run", "--systems", "oracle", "--out", t.TempDir()})
	err := c.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), `no system "oracle"; there are pentad, `) {
		t.Errorf("an unknown system: %v", err)
	}
}
