package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestCold(t *testing.T) {
	out, figures := command(t, "cold", "--rows", "24000", "--boxes", "2", "--budget", "5ms",
		"--files-only", "--systems", "pentad,pebble,bbolt")
	if !strings.Contains(out, "posix_fadvise") {
		t.Errorf("nothing is said of the page cache:\n%s", out)
	}
	for _, name := range []string{"Q1 pentad cold", "Q10 bbolt cold", "Q5 pebble cold / warm",
		"Q7 pentad cold: blocks opened", "Q2 pebble cold: opening"} {
		if f := figures[name]; f.Value <= 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestColdRefuses(t *testing.T) {
	f := func(flag, value, want string) {
		t.Helper()
		c := root(new(bytes.Buffer))
		c.SetArgs([]string{"cold", flag, value, "--out", t.TempDir()})
		err := c.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %s: %v", flag, value, err)
		}
	}
	f("--systems", "pentad,postgres", "postgres is a server")
	f("--boxes", "0", "ask one at least")
}
