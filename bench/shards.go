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
	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/runner"
	"github.com/pentad-db/pentad/bench/workload/meters"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	barShards  = 1.3 // times, that two shards on two processors store as much as one
	barSettled = 0.8 // of the acknowledged rate

	// A load during which other processes have more than this of a processor is repeated, up to
	// some times for each round.
	mostOthers   = 0.1
	maxDisturbed = 8
)

// shardRun compares heads of several shards with heads of one.
type shardRun struct {
	out      io.Writer
	dir      string
	rows     int
	shards   int
	rounds   int
	writers  int
	settle   bool
	sealRows int

	batches   []record.Batch
	kinds     []shardRates // of one shard, and of several
	figures   figure.List
	disturbed int // loads that were repeated
}

// shardRates is what the rounds measured of heads of one number of shards.
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
		Short: "Compare durable ingest into heads of several shards with heads of one",
		Long: `Make the standard workload in memory, then load it into embedded nodes whose heads have one shard
or several, each a new node, in turns. Several writers put it, in batches of 10,000. Loads during
which other processes have more than a tenth of a processor are repeated. Ratios are medians of
those of the rounds. A processor profile of the last loads goes to shards-N.pprof in the folder.

With the default --seal-rows, segments are written while records are put, and take the processors
that shards would use. With more than --rows, nothing is sealed: the log and the heads are measured.`,
		Example: `  bench shards --seal-rows 20000000
  bench shards --rows 8000000 --writers 1 --settle`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&r.rows, "rows", 12_000_000, "about how many records, all of which are in memory")
	f.IntVar(&r.shards, "shards", 2, "of the heads that are compared with those of one")
	f.IntVar(&r.rounds, "rounds", 5, "loads of each")
	f.IntVar(&r.writers, "writers", 4, "puts at the same time")
	f.IntVar(&r.sealRows, "seal-rows", 0, "rows after which a head is sealed; 0: the default")
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
	dir := filepath.Join(work, "data")
	for _, shards := range []int{1, r.shards} { // they pay for memory that was never touched
		if _, err := r.load(ctx, dir, shards, false); err != nil {
			return err
		}
	}
	for round := range r.rounds {
		for i := range r.kinds {
			k := &r.kinds[(i+round)%len(r.kinds)]
			last := round == r.rounds-1
			if err := r.measure(ctx, dir, k, last); err != nil {
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

// loaded is what one load measured.
type loaded struct {
	acked, settled float64 // M records/s
	bytes          float64 // of a record on disk
	segments       int
	others         float64 // processors that other processes have had until all was acknowledged
}

// measure loads until other processes leave the processors alone.
func (r *shardRun) measure(ctx context.Context, dir string, k *shardRates, profile bool) error {
	for {
		l, err := r.load(ctx, dir, k.shards, profile)
		if err != nil {
			return err
		}
		if l.others > mostOthers && r.disturbed < r.rounds*maxDisturbed {
			r.disturbed++
			continue
		}
		k.acked, k.settled = append(k.acked, l.acked), append(k.settled, l.settled)
		k.bytes, k.segments = append(k.bytes, l.bytes), l.segments
		return nil
	}
}

// load puts the workload into a new node.
func (r *shardRun) load(
	ctx context.Context, dir string, shards int, profile bool,
) (l loaded, err error) {
	runtime.GC()
	var clock atomic.Int64
	n, err := node.Open(ctx, node.Options{Dir: dir, Store: store.Options{HeadShards: shards,
		SealRows: r.sealRows, Now: clock.Load}})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, n.Close(ctx), os.RemoveAll(dir)) }()
	if profile {
		stop, err := r.profile(shards)
		if err != nil {
			return l, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	others, began := sinceOthers(), time.Now()
	records, err := r.put(ctx, n, &clock)
	if err != nil {
		return l, err
	}
	l.acked, l.others = rate(records, time.Since(began)), others()
	if !r.settle {
		return l, nil
	}
	if err := n.Settle(ctx); err != nil {
		return l, err
	}
	l.settled, l.segments = rate(records, time.Since(began)), n.StoreStats().Segments
	bytes, err := runner.TreeBytes(dir)
	l.bytes = float64(bytes) / float64(records)
	return l, err
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

// sinceOthers returns a function that tells how much of a processor other processes have had since,
// 0 where that is not known.
func sinceOthers() func() float64 {
	now := func() (time.Duration, error) {
		all, err := process.AllTime()
		own, err2 := process.OwnTime()
		return all - own, errors.Join(err, err2)
	}
	before, err := now()
	began := time.Now()
	return func() float64 {
		after, err2 := now()
		if err != nil || err2 != nil {
			return 0
		}
		return float64(after-before) / float64(time.Since(began))
	}
}
