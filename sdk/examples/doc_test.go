package examples

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Sizes of the document: a section is at most half a page.
const (
	sections        = 16 + 1 // the techniques, and all of them at once
	maxSectionLines = 45
)

// TestDocument holds sdk/docs/modelling.md against the examples: each section names a file of them
// with an example that checks what it prints, its code is in this file, and its benchmarks exist.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/modelling.md")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(string(text), "\n## ")[1:]
	if len(all) != sections {
		t.Errorf("%d sections, want %d", len(all), sections)
	}
	file := regexp.MustCompile(`\(\.\./examples/(\w+_test\.go)\)`)
	for _, section := range all {
		title, _, _ := strings.Cut(section, "\n")
		if n := strings.Count(section, "\n"); n > maxSectionLines {
			t.Errorf("%s: %d lines, at most %d", title, n, maxSectionLines)
		}
		names := file.FindStringSubmatch(section)
		if names == nil {
			t.Errorf("%s: names no file of examples", title)
			continue
		}
		source, err := os.ReadFile(names[1])
		if err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		checked := strings.Contains(string(source), "\nfunc Example_") &&
			strings.Contains(string(source), "// Output:")
		if !checked && !strings.Contains(string(source), "\nfunc Test") {
			t.Errorf("%s: %s has no example that is checked, and no test", title, names[1])
		}
		checkCode(t, title, section, string(source))
	}
	checkBenchmarks(t, string(text))
}

// checkCode finds every line of the code of a section in its source, in order.
func checkCode(t *testing.T, title, section, source string) {
	t.Helper()
	blocks := strings.Split(section, "```go\n")[1:]
	if len(blocks) == 0 {
		t.Errorf("%s: has no code", title)
	}
	for _, block := range blocks {
		code, _, closed := strings.Cut(block, "\n```")
		if !closed {
			t.Errorf("%s: code without an end", title)
		}
		rest := strings.Split(source, "\n")
		for line := range strings.SplitSeq(code, "\n") {
			at := slices.IndexFunc(rest, func(have string) bool {
				return strings.TrimSpace(have) == strings.TrimSpace(line)
			})
			if at < 0 {
				t.Errorf("%s: the line %q is not in its example, or not there", title, line)
				break
			}
			rest = rest[at+1:]
		}
	}
}

// checkBenchmarks finds the benchmarks that a document names.
func checkBenchmarks(t *testing.T, document string) {
	t.Helper()
	var sources strings.Builder
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(text)
	}
	named := regexp.MustCompile(`go test \./sdk/examples -run '\^\$' -bench (\w+)`)
	all := named.FindAllStringSubmatch(document, -1)
	if len(all) < 3 {
		t.Errorf("%d benchmarks are named", len(all))
	}
	for _, m := range all {
		if !strings.Contains(sources.String(), "func Benchmark"+m[1]+"(") {
			t.Errorf("there is no benchmark %s", m[1])
		}
	}
}
