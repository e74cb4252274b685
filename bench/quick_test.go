package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestQuick runs the whole short benchmark on few records: every answer is compared with the
// oracle's, and every figure with a bar is there.
func TestQuick(t *testing.T) {
	dir := t.TempDir()
	pentad := buildPentad(t)
	interrupted := root(new(bytes.Buffer))
	interrupted.SetArgs([]string{"quick", "--rows", "150000", "--beside-rows", "80400",
		"--budget", "20ms", "--out", dir, "--pentad", "nowhere/pentad"})
	if err := interrupted.ExecuteContext(t.Context()); err == nil {
		t.Fatal("a node that is not there was measured")
	}
	var out bytes.Buffer
	c := root(&out)
	c.SetArgs([]string{"quick", "--rows", "150000", "--beside-rows", "80400",
		"--budget", "20ms", "--out", dir, "--pentad", pentad})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "raw: done before") {
		t.Errorf("what was done before the interruption was done again:\n%s", &out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "quick.json"))
	if err != nil {
		t.Fatal(err)
	}
	var figures figure.List
	if err := json.Unmarshal(text, &figures); err != nil {
		t.Fatal(err)
	}
	bars := 0
	for _, f := range figures {
		if f.Value <= 0 {
			t.Errorf("%s is %v", f.Name, f.Value)
		}
		if f.Bar != nil {
			bars++
		}
	}
	if bars != 6 || len(figures) < 50 {
		t.Errorf("%d figures, %d with bars", len(figures), bars)
	}
	left, err := filepath.Glob(filepath.Join(dir, "work-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// built is the program, which is built once; the go command leaves it alone while it is up to date.
var built = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs(filepath.Join("out", "test-pentad"))
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", path, "./node/cmd/pentad")
	build.Dir = ".."
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, text)
	}
	return path, nil
})

// buildPentad returns the path of the program.
func buildPentad(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestQuickNamesWhatIsMissing(t *testing.T) {
	c := root(new(bytes.Buffer))
	c.SetArgs([]string{"quick", "--rows", "1000", "--out", t.TempDir(), "--pentad",
		"nowhere/pentad"})
	err := c.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("no node to start: %v", err)
	}
}

// TestStatsSeesWrongResults changes a field at a time, also to what compares with nothing.
func TestStatsSeesWrongResults(t *testing.T) {
	want := newStats()
	var b record.Batch
	for _, v := range []float64{3, 1, 4, 1, 5} {
		b.AppendStamped(record.Key{}, system.AppendNumber(nil, v))
	}
	if err := want.add(&b); err != nil {
		t.Fatal(err)
	}
	result := binary.LittleEndian.AppendUint64(nil, want.count)
	for _, v := range []float64{want.sum, want.min, want.max, want.mean, want.m2 / 4} {
		result = system.AppendNumber(result, v)
	}
	if err := want.equal(result); err != nil {
		t.Error(err)
	}
	for field := range 6 {
		for _, v := range []float64{math.NaN(), math.Inf(1), 2} {
			wrong := append(slices.Clone(result[:8*field]), system.AppendNumber(nil, v)...)
			if want.equal(append(wrong, result[8*field+8:]...)) == nil {
				t.Errorf("field %d may be %v", field, v)
			}
		}
	}
}
