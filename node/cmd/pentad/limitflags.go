package main

import (
	"errors"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/store"
)

// limitFlags are the flags of serve that divide the memory and the processors of a node.
type limitFlags struct {
	heads, results cli.SizeFlag
	partials       cacheFlag
	queries        int
	shards         int
}

const (
	// minHeadBytes is what the heads of a node with little memory need to take batches.
	minHeadBytes = 16 << 20
	// minResultBytes is what an ordered answer needs before it goes to a temporary file.
	minResultBytes = 1 << 20
	// maxQueries is where queries only wait for each other.
	maxQueries = 100_000
	// mostShards is the default with many processors: from there on the log is the limit.
	mostShards = 16
)

func (f *limitFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.Var(&f.heads, "head-memory", "memory for records that are not in segment files yet, "+
		"e.g. 512MiB;\nputs wait at the limit (default: 1/4 of --memory - 96MiB, at most 2GiB)")
	flags.Var(&f.results, "result-memory", "memory for ordered answers, e.g. 256MiB; the rest "+
		"goes to temporary files\n(default: 1/8 of --memory - 96MiB, at most 1GiB)")
	flags.Var(&f.partials, "partial-memory", "memory for cached partial aggregates, e.g. 128MiB; "+
		"off: none\n(default: 1/16 of --memory - 96MiB, at most 64MiB)")
	flags.IntVar(&f.queries, "max-queries", 0, "maximum number of concurrent queries, e.g. 32; "+
		"others wait\n(default: 8 per processor, or one per 48MiB of --memory - 96MiB, at least 3)")
	flags.IntVar(&f.shards, "shards", 0, "how many processors put the records of a batch into "+
		"memory at the same time, 1 to 64,\nat most one per 64MiB of --head-memory; may change at "+
		"each start\n(default: half of the processors, at most 16; 1 in a cluster and on an edge)")
}

// defaultShards returns how many shards heads have by default. Half of the processors are left to
// seals, merges and queries: on two, a second shard only costs. Edge nodes are small, and a node of
// a cluster fills the heads of its groups at the same time.
func defaultShards(opt *node.Options, isEdge bool) int {
	if isEdge || opt.Cluster.TokenFile != "" {
		return 1
	}
	return min(max(1, runtime.GOMAXPROCS(0)/2), mostShards)
}

// set checks the flags and puts those that were given into the options.
func (f *limitFlags) set(c *cobra.Command, opt *node.Options, isEdge bool) error {
	switch {
	case f.heads > 0 && f.heads < minHeadBytes:
		return cli.Usagef("--head-memory %d: too small; give at least 16MiB", f.heads)
	case f.results > 0 && f.results < minResultBytes:
		return cli.Usagef("--result-memory %d: too small; give at least 1MiB", f.results)
	case c.Flags().Changed("max-queries") && (f.queries < 1 || f.queries > maxQueries):
		return cli.Usagef("--max-queries %d: out of range; give 1 to %d", f.queries, maxQueries)
	}
	if opt.Store.HeadShards = f.shards; !c.Flags().Changed("shards") {
		opt.Store.HeadShards = defaultShards(opt, isEdge)
	} else if f.shards < 1 || f.shards > store.MaxHeadShards {
		return cli.Usagef("--shards %d: out of range; give 1 to %d", f.shards, store.MaxHeadShards)
	}
	sum := max(0, int64(f.heads)) + max(0, int64(f.results)) + max(0, int64(f.partials))
	if opt.MemoryBytes > 0 && sum > opt.MemoryBytes {
		return cli.Usagef("--head-memory, --result-memory and --partial-memory: %d bytes together "+
			"are more than --memory, %d bytes; lower one of them", sum, opt.MemoryBytes)
	}
	opt.Store.HeadBytes, opt.ResultBytes = int64(f.heads), int64(f.results)
	opt.PartialBytes, opt.MaxQueries = int64(f.partials), f.queries
	return nil
}

// cacheFlag is the size of a cache; off is -1.
type cacheFlag int64

func (f *cacheFlag) Set(text string) error {
	if text == "off" {
		*f = -1
		return nil
	}
	var size cli.SizeFlag
	if err := size.Set(text); err != nil {
		return errors.Join(err, errors.New("or off"))
	}
	*f = cacheFlag(size)
	return nil
}

func (f *cacheFlag) String() string {
	if *f < 0 {
		return "off"
	}
	return (*cli.SizeFlag)(f).String()
}

func (f *cacheFlag) Type() string { return "bytes" }
