package main

import (
	"strings"
	"testing"
)

func TestFeed(t *testing.T) {
	out, figures := command(t, "feed", "--rows", "100000", "--recent", "30000", "--latency",
		"300ms", "--idle", "20", "--rest", "0s", "--rate", "20000", "--files-only", "--pentad",
		buildPentad(t))
	if !strings.Contains(out, "posix_fadvise") {
		t.Errorf("nothing is said of the page cache:\n%s", out)
	}
	for _, name := range []string{"feed, cold history, embedded", "feed, cold history, HTTP",
		"feed, recent, embedded", "feed, recent, HTTP", "feed, acknowledged to arrived, p50",
		"feed, acknowledged to arrived, p99", "feed, memory of 20 followers that wait"} {
		if figures[name].Bar == nil {
			t.Errorf("%s has no bar", name)
		}
	}
}
