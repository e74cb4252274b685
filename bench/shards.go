package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/runner"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	barShards  = 1.3 // times, that two shards on two processors store as much as one
	barSettled = 0.8 // of the acknowledged rate
)

// shardRun compares stores of several shards with one of one.
type shardRun struct {
	out     io.Writer
	dir     string
	rows    int
	shards  int
	rounds  int
	writers int
	settle  bool
	seal    int

	batches []record.Batch
	kinds   []shardRates // of one shard, and of several
	figures figure.List
}

// shardRates is what the rounds measured of stores of one number of shards.
type shardRates struct {
	shards         int
	acked, settled []float64 // M records/s
	bytes          []float64 // of a record on disk
	segments       int
}

func shardsCommand(out io.Writer) *cobra.Command {
	r := shardRun{out: out}
	c := &cobra.Command{
		Use:   "shards",
		Short: "Compare durable ingest of a store of several shards with one of one shard",
		Long: `Make the standard workload in memory, then load it into embedded nodes of one shard and of several,
each a new one, in turns. Several writers put it, in batches of 10,000. The ratios are medians of
those of the rounds. A processor profile of the last loads goes to shards-N.pprof in the folder.`,
		Example: `  bench shards
  bench shards --rows 8000000 --writers 1 --settle`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&r.rows, "rows", 4_000_000, "about how many records, all of which are in memory")
	f.IntVar(&r.shards, "shards", 2, "of the store that is compared with one of one shard")
	f.IntVar(&r.rounds, "rounds", 5, "loads of each")
	f.IntVar(&r.writers, "writers", 4, "puts at the same time")
	f.IntVar(&r.seal, "seal-rows", 0, "")
	f.BoolVar(&r.settle, "settle", false, "measure also until all is sealed and merged, and bytes")
	f.StringVar(&r.dir, "out", "out", "folder of shards.json and profiles, and of the data")
	return c
}

func (r *shardRun) run(ctx context.Context) (err error) {
	if r.rows < 1 || r.shards < 2 || r.rounds < 1 || r.writers < 1 {
		return errors.New("--rows, --rounds and --writers must be 1 or more, --shards 2 or more")
	}
	work := filepath.Join(r.dir, "work-shards")
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	fmt.Fprintln(r.out, machine())
	r.make()
	r.kinds = []shardRates{{shards: 1}, {shards: r.shards}}
	if err := r.load(ctx, filepath.Join(work, "data"), &shardRates{shards: 1}, false); err != nil {
		return err // the first load pays for memory that was never touched
	}
	for round := range r.rounds {
		for i := range r.kinds {
			k := &r.kinds[(i+round)%len(r.kinds)]
			last := round == r.rounds-1
			if err := r.load(ctx, filepath.Join(work, "data"), k, last); err != nil {
				return err
			}
		}
	}
	r.report()
	if err := r.figures.Table(r.out); err != nil {
		return err
	}
	return r.figures.Save(filepath.Join(r.dir, "shards.json"))
}

// make keeps the workload in memory.
func (r *shardRun) make() {
	s := meters.Sized(r.rows).NewStream()
	for {
		var b record.Batch
		if !s.Next(&b) {
			return
		}
		r.batches = append(r.batches, b)
	}
}

// load puts the workload into a new node.
func (r *shardRun) load(
	ctx context.Context, dir string, k *shardRates, profile bool,
) (err error) {
	runtime.GC()
	var clock atomic.Int64
	n, err := node.Open(ctx, node.Options{Dir: dir,
		Store: store.Options{HeadShards: k.shards, Now: clock.Load, SealRows: r.seal}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(ctx), os.RemoveAll(dir)) }()
	if profile {
		stop, err := r.profile(k.shards)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	began := time.Now()
	records, err := r.put(ctx, n, &clock)
	if err != nil {
		return err
	}
	took := time.Since(began)
	k.acked = append(k.acked, rate(records, took))
	st0 := n.StoreStats()
	fmt.Fprintf(r.out, "  shards %d: %.2f M/s, log %.0f%%, appends %d, seals %d, seal %.2fs merge %.2fs thr %.2fs of %.2f\n", k.shards, rate(records, took), float64(st0.LogNs)/float64(took)*100, st0.LogAppends, st0.Seals, float64(st0.SealNs)/1e9, float64(st0.MergeNs)/1e9, float64(st0.ThrottledNs)/1e9, took.Seconds())
	if !r.settle {
		return nil
	}
	if err := n.Settle(ctx); err != nil {
		return err
	}
	k.settled = append(k.settled, rate(records, time.Since(began)))
	st := n.StoreStats()
	k.segments = st.Segments
	bytes, err := runner.TreeBytes(dir)
	k.bytes = append(k.bytes, float64(bytes)/float64(records))
	return err
}

// put puts all batches, several at a time, and returns how many records that were.
func (r *shardRun) put(
	ctx context.Context, n *node.Node, clock *atomic.Int64,
) (records int64, err error) {
	var next, stored atomic.Int64
	failed := make([]error, r.writers)
	var wg sync.WaitGroup
	for w := range r.writers {
		wg.Go(func() {
			for failed[w] == nil {
				i := next.Add(1) - 1
				if i >= int64(len(r.batches)) {
					return
				}
				b := r.batches[i]
				clock.Store(b.AcqNs[0])
				b.AcqNs = nil
				_, failed[w] = n.Put(ctx, &b, store.WriterSeq{})
				stored.Add(int64(b.Len()))
			}
		})
	}
	wg.Wait()
	return stored.Load(), errors.Join(failed...)
}

// profile begins a profile of the processors.
func (r *shardRun) profile(shards int) (stop func() error, err error) {
	f, err := os.Create(filepath.Join(r.dir, fmt.Sprintf("shards-%d.pprof", shards)))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

func (r *shardRun) report() {
	for i := range r.kinds {
		k := &r.kinds[i]
		name := fmt.Sprintf(", %d shards", k.shards)
		r.figures.Add("durable ingest, embedded"+name, medianOf(k.acked), "M records/s")
		if !r.settle {
			continue
		}
		r.figures.Add("durable ingest until sealed and merged"+name, medianOf(k.settled),
			"M records/s")
		r.figures.AtLeast("the same as a part of the acknowledged rate"+name,
			ratioOf(k.settled, k.acked), figure.Ratio, barSettled)
		r.figures.Add("bytes on disk per record"+name, medianOf(k.bytes), "B")
		r.figures.Add("segments"+name, float64(k.segments), "")
	}
	one, more := &r.kinds[0], &r.kinds[1]
	name := fmt.Sprintf(", %d shards to one", more.shards)
	r.figures.AtLeast("durable ingest, embedded"+name, ratioOf(more.acked, one.acked),
		figure.Ratio, barShards)
	if r.settle {
		r.figures.Add("durable ingest until sealed and merged"+name,
			ratioOf(more.settled, one.settled), figure.Ratio)
	}
}
