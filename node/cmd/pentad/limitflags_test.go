package main

import (
	"cmp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node"
)

func TestLimitFlags(t *testing.T) {
	f := func(want node.Options, wrong string, args ...string) {
		t.Helper()
		var limits limitFlags
		c := &cobra.Command{}
		limits.add(c)
		got := node.Options{MemoryBytes: want.MemoryBytes}
		err := c.ParseFlags(args)
		if err == nil {
			err = limits.set(c, &got, false)
		}
		if wrong != "" {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v, want %q", args, err, wrong)
			}
			return
		}
		if err != nil || got.Store.HeadBytes != want.Store.HeadBytes ||
			got.ResultBytes != want.ResultBytes || got.PartialBytes != want.PartialBytes ||
			got.MaxQueries != want.MaxQueries || got.Store.HeadShards !=
			cmp.Or(want.Store.HeadShards, max(1, runtime.GOMAXPROCS(0)/2)) {
			t.Errorf("%s: %v, %+v", args, err, got)
		}
	}
	f(node.Options{}, "")
	heads := node.Options{MemoryBytes: 2 << 30, ResultBytes: 1 << 28, PartialBytes: 1 << 27,
		MaxQueries: 32}
	heads.Store.HeadBytes = 1 << 29
	f(heads, "", "--head-memory", "512MiB", "--result-memory", "256MiB", "--partial-memory",
		"128MiB", "--max-queries", "32")
	f(node.Options{PartialBytes: -1}, "", "--partial-memory", "off")
	few := node.Options{MemoryBytes: 1 << 29}
	f(few, "more than --memory", "--head-memory", "512MiB", "--result-memory", "1MiB")
	f(node.Options{}, "at least 16MiB", "--head-memory", "1MiB")
	f(node.Options{}, "at least 1MiB", "--result-memory", "1000")
	f(node.Options{}, "give 1 to 100000", "--max-queries", "0")
	f(node.Options{}, "give 1 to 100000", "--max-queries", "-1")
	f(node.Options{MaxQueries: 1}, "", "--max-queries", "1")
	shards := node.Options{}
	shards.Store.HeadShards = 7
	f(shards, "", "--shards", "7")
	f(node.Options{}, "give 1 to 64", "--shards", "0")
	f(node.Options{}, "give 1 to 64", "--shards", "65")
}
