package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestSoak(t *testing.T) {
	out, figures := command(t, "soak", "--for", "0s", "--steps", "1", "--every", "100ms", "--age",
		"5m", "--pentad", buildPentad(t))
	if !strings.Contains(out, "housekeeping") {
		t.Errorf("nothing is said of the clients:\n%s", out)
	}
	for _, name := range []string{"goroutines, after all clients / before them",
		"descriptors, after all clients / before them"} {
		if figures[name].Bar == nil {
			t.Errorf("%s has no bar", name)
		}
	}
	if f := figures["answers compared"]; f.Value <= 0 {
		t.Errorf("%+v", f)
	}
}

func TestSoakRefusesFlags(t *testing.T) {
	for _, flag := range []string{"--rate=0", "--every=0s", "--memory=0", "--for=-1s"} {
		c := root(new(bytes.Buffer))
		c.SetArgs([]string{"soak", flag, "--out", t.TempDir()})
		if err := c.ExecuteContext(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "above 0") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestNodeLog(t *testing.T) {
	f := func(want string, writes ...string) {
		t.Helper()
		var l nodeLog
		for _, w := range writes {
			if _, err := l.Write([]byte(w)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.failed(); (err == nil) != (want == "") ||
			err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v", writes, err)
		}
	}
	f("", `{"level":"WARN"}`+"\n", "text\n")
	f(`{"level":"ERROR","msg":"one"}`, "text\n", `{"level":"ERR`, `OR","msg":"one"}`+"\n",
		`{"level":"ERROR","msg":"two"}`+"\n")
}
