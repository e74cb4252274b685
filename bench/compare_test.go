package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/bench/figure"
)

// TestCompareFails wants an error, and so the exit code 1, for what is worse than allowed.
func TestCompareFails(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, ms float64) string {
		t.Helper()
		var l figure.List
		l.Add("open", ms, "ms")
		path := filepath.Join(dir, name)
		if err := l.Save(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before, after := file("old.json", 100), file("new.json", 120)
	f := func(want string, args ...string) {
		t.Helper()
		c := root(new(bytes.Buffer))
		c.SetArgs(append([]string{"compare", before, after}, args...))
		if err := c.ExecuteContext(t.Context()); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
	f("")
	f("1 figures are more than 10 % worse", "--worse", "0.1")
}
