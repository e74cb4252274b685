package results

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/report"
)

// sampleList is what the files in testdata are of; one of them is missing.
func sampleList() []Measurement {
	return []Measurement{
		{Name: "beside", Title: "Several systems, 5 records", About: "Made up.",
			Args: args("run --name beside")},
		{Name: "feed", Title: "Change feeds", About: "Made up, too.", Args: args("feed")},
		{Name: "missing", Title: "Not run", About: "Nothing.", Args: args("-bench X"), Test: true},
	}
}

// golden compares with a file, which -update writes.
func golden(t *testing.T, got []byte, file string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is rendered (-update writes it):\n%s", file, got)
	}
}

var update = flag.Bool("update", false, "write the golden files")

func TestRender(t *testing.T) {
	var out bytes.Buffer
	if err := Render(&out, sampleList(), "testdata"); err != nil {
		t.Fatal(err)
	}
	golden(t, out.Bytes(), "testdata/RESULTS.md")
}

func TestRenderRefuses(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := Render(&bytes.Buffer{}, sampleList(), folder)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	f("other.json", "{}", "no measurement has this name")
	f("feed.json", "[", "feed.json")
}

func TestReadme(t *testing.T) {
	run, err := report.Load("testdata/beside.json")
	if err != nil {
		t.Fatal(err)
	}
	text := "before\n" + tableBegin + "old\n" + tableEnd + "after\n"
	got, err := Readme([]byte(text), run)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, got, "testdata/README.md")
	again, err := Readme(got, run)
	if err != nil || !bytes.Equal(again, got) {
		t.Errorf("written again: %v\n%s", err, again)
	}
	for _, text := range []string{"no table", tableBegin + "no end"} {
		if _, err := Readme([]byte(text), run); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	if _, err := Readme([]byte(text), new(report.Run)); err == nil {
		t.Error("a run without results: no error")
	}
}

// TestResultsAreRendered fails when a result or a text was changed and not rendered.
func TestResultsAreRendered(t *testing.T) {
	const hint = "run make bench-results"
	var out bytes.Buffer
	if err := Render(&out, List(), "."); err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), document) {
		t.Errorf("RESULTS.md is not what is rendered; %s", hint)
	}
	run, err := report.Load(Measurement{Name: Headline}.Path("."))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := Readme(readme, run)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(rendered, readme) {
		t.Errorf("the table of the README is not what is rendered; %s", hint)
	}
}

func TestListIsConsistent(t *testing.T) {
	names, titles := map[string]bool{}, map[string]bool{}
	for _, m := range List() {
		if names[m.Name] || titles[m.Title] || m.About == "" || len(m.Args) == 0 {
			t.Errorf("%q, %q: twice, or without text or command", m.Name, m.Title)
		}
		names[m.Name], titles[m.Title] = true, true
	}
	if !names[Headline] {
		t.Errorf("no measurement %q", Headline)
	}
}

func TestKeepAndMeasured(t *testing.T) {
	m, folder := sampleList()[1], t.TempDir()
	put := report.Summarise([]float64{1, 2})
	run := report.Run{Commit: "abc", Command: m.Command(), When: time.Unix(0, 0).UTC(),
		Results: []report.Result{{Workload: "w", Systems: []report.System{{Name: own, Put: put}}}}}
	if m.Measured(folder, "abc") {
		t.Error("measured without a file")
	}
	if err := m.Keep(&run, folder); err != nil {
		t.Fatal(err)
	}
	kept, err := report.Load(m.Path(folder))
	if err != nil {
		t.Fatal(err)
	}
	if p := kept.Results[0].Systems[0].Put; p.SamplesUs != nil || p.MedianUs != put.MedianUs {
		t.Errorf("kept %+v", p)
	}
	if !m.Measured(folder, "abc") || m.Measured(folder, "def") {
		t.Error("a result counts for its commit, and for no other")
	}
	other := m
	other.Args = args("feed --rows 5")
	if other.Measured(folder, "abc") {
		t.Error("the result of another command counts")
	}
	run.Commit = "abc-dirty"
	if err := m.Keep(&run, folder); err != nil {
		t.Fatal(err)
	}
	if m.Measured(folder, "abc-dirty") {
		t.Error("a tree with changes counts as measured")
	}
}

func TestParseBenchmarks(t *testing.T) {
	got, err := ParseBenchmarks([]byte("goos: linux\n" +
		"BenchmarkLast/files-2 \t 100\t 52000 ns/op\t 0.5 PUT-times-native\nPASS\n"))
	want := figure.List{{Name: "Last/files", Value: 52000, Unit: "ns/op"},
		{Name: "Last/files", Value: 0.5, Unit: "PUT-times-native"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ParseBenchmarks([]byte("PASS\n")); err == nil {
		t.Error("no benchmark, and no error")
	}
	if _, err := ParseBenchmarks([]byte("BenchmarkA-2 1 x ns/op\n")); err == nil {
		t.Error("a value that is not a number, and no error")
	}
}
