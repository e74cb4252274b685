// Package scan runs queries over the read states of a store: it gives the rows in a box to
// consumers, counts them, or says how they would be found.
//
// It owns the tasks of a scan, the workers that share them and the order in which rows come. It
// reads what an [versions.Access] pins up to a horizon that is given, and knows nothing of the
// store or of the order and limit of a query; of plugins only whether the query has any. Its main
// types are [Runner], which the scans of a store share, and [Scan]. The first worker of a scan is
// the caller's goroutine, the others are those of a workers.Pool; all have ended when Run returns,
// but for Consumer.Done.
package scan

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/node/store/workers"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// Stats says what a scan saw and what it cost.
type Stats struct {
	HorizonNs int64 // the scan saw every row with acq below this, and no other
	// HistoryChangedAcqNs is the acq of the newest purge, step of a retention or put below the
	// horizon that meets the box, 0 for none: answers from before may differ below their horizons.
	HistoryChangedAcqNs int64
	Rows                uint64 // rows given to sinks
	Segments            int    // sealed segments that were planned
	BlocksScanned       uint64 // blocks opened
	BlocksInside        uint64 // blocks wholly inside the box, opened or only counted
	RowsExamined        uint64 // rows of the opened blocks
	HeadRows            uint64 // rows given out by heads
	BytesRead           uint64 // bytes of the opened blocks

	Partials          uint64 // of blocks, see [blocks.PartialSink]
	PartialsWithState uint64 // of these, those with a state: their rows were not needed
	VersionsHidden    uint64 // rows that were met and left out for a newer version
	BlocksSkipped     uint64 // of the blocks opened, those no payload of which meets the condition
	Workers           int
	TookNs            int64

	Devices  int   // that a selector chose, and how long that took
	SelectNs int64 // a part of TookNs
	// Located are the locations that were read to find where devices that move were, of blocks that
	// were opened, of which some were left as no location in them is in the region of the selector.
	Located, LocatedBlocks, LocatedSkipped uint64
}

// Add adds what a reader did.
func (st *Stats) Add(w *blocks.Counts) {
	st.Rows += w.Rows
	st.BlocksScanned += w.Blocks
	st.BlocksInside += w.Inside
	st.RowsExamined += w.Examined
	st.HeadRows += w.HeadRows
	st.BlocksSkipped += w.SkippedBlocks
	st.BytesRead += w.Bytes
	st.VersionsHidden += w.SupersededRows
	st.Segments += w.Planned
}

// Runner is what the scans of a store share.
type Runner struct {
	Access  versions.Access
	Workers int // goroutines of one scan at most
	// MinParallelRows is how many rows that are read make a second worker pay.
	MinParallelRows int
	Pool            *workers.Pool // runs all workers but the first
	running         atomic.Int32  // scans of several workers
}

// Scan is one running query, and memory that it hands on to the next one.
type Scan struct {
	versions.Resolver
	scanState
	scanBuffers
}

// scanState is what is asked, and what came of it.
type scanState struct {
	runner     *Runner
	keysOnly   bool
	fixedOrder bool           // the same rows come in the same order each time: sinks sum floats
	done       int            // tasks of the passes before
	Empty      bool           // nothing can lie in the box
	where      *where.Program // what payloads of rows are to meet; nil: any
	countMet   bool           // rows that meet it are counted only
	drop       DropRows       // the rows that consumers do not get; nil: none
	whereErr   error          // of its text
	verify     bool           // every block that is opened is verified
	lastN      uint32         // readings of each series; 0: all
	// ConcurrentScans is how many scans of the process serve the same query at the same time, this
	// one included: each uses its share of the processors. 0: it is the only one.
	ConcurrentScans int

	acqs          acqBounds
	countedInside uint64
	Stats         Stats
	explain       *explaining // nil but for Explain
}

type scanBuffers struct {
	tasks     []task // of the pass
	pool      []*worker
	attaching sync.Mutex // held while one of the workers gets its consumer
}

// scans are kept with the memory that they have gathered, so that a query of few rows allocates
// next to nothing.
var scans = sync.Pool{New: func() any { return new(Scan) }}

// Begin begins a scan of the rows below a horizon, which the caller closes. The query is
// normalized, and its condition bound to types, else Run fails. For a view that resolves versions
// the box is widened to every acq that can hide a row of the asked ones.
func (r *Runner) Begin(ctx context.Context, q *record.Query, horizon int64) *Scan {
	sc := scans.Get().(*Scan)
	sc.Reuse(ctx, &r.Access)
	sc.Box, sc.Horizon, sc.View, sc.BySeries = q.Box, horizon, q.View, q.Last > 0
	sc.runner, sc.keysOnly, sc.lastN, sc.verify = r, q.KeysOnly, q.Last, q.Verify
	sc.fixedOrder = q.Aggregate.Name != ""
	sc.DropTombstones = sc.fixedOrder || len(q.Filters) > 0 || q.Where != ""
	sc.VersionLookup.Verify = q.Verify
	if q.Where != "" {
		sc.where, sc.whereErr = where.Compile(q.Where)
	}
	sc.Stats.HorizonNs = horizon
	sc.acqs.set(q, horizon)
	sc.Box[record.Acq], sc.NewestAcqs = sc.acqs.read, sc.acqs.newest
	sc.UpperAcqNs, sc.Empty = sc.acqs.upperNs, len(sc.acqs.read) == 0
	sc.UseSuperseded = q.View != record.ViewAll && len(sc.NewestAcqs) == 0 && !sc.BySeries
	return sc
}

// DropRows calls drop for the rows of a batch that a scan leaves out, by their tenants, devices and
// caps.
type DropRows func(b *record.Batch, drop func(i int))

// SetDrop leaves out rows that the box has, after the last readings were chosen if those are asked
// for. Several workers call it at the same time. It is called before Run.
func (sc *Scan) SetDrop(rows DropRows) { sc.drop = rows }

// Close ends the use of a scan. What was used is set to zero in its place: a scan is large
// enough for a copy to be felt.
func (sc *Scan) Close() {
	for _, w := range sc.pool[:min(sc.Stats.Workers, len(sc.pool))] {
		w.reset()
	}
	sc.Resolver.Reset()
	sc.tasks = sc.tasks[:0]
	sc.scanState = scanState{}
	scans.Put(sc)
}

// Count counts the rows that Run would give out into Stats.Rows. Blocks inside the box of which
// it is known how many rows have a newer version are not opened. Errors are those of Run.
func (sc *Scan) Count() error {
	sc.CountOnly = sc.where == nil && sc.drop == nil
	sc.countMet = sc.where != nil && sc.drop == nil
	err := sc.Run(discard)
	sc.Stats.Rows += sc.countedInside
	return err
}

// Run works pass after pass off, with more workers than one when there is enough to do. It is
// called once.
//
// Errors: *durable.CorruptError, ctx.Err(), and those of consumers.
func (sc *Scan) Run(newConsumer func(worker int) (blocks.Consumer, error)) error {
	if sc.whereErr != nil {
		return sc.whereErr
	}
	// After CatchPageFaults, which looks for a fault in the files of the read states.
	defer sc.UnpinStates()
	return segment.CatchPageFaults(func() error { return sc.runPasses(newConsumer) }, sc.Files)
}

func (sc *Scan) runPasses(newConsumer func(worker int) (blocks.Consumer, error)) error {
	sc.PinStates()
	sc.Stats.HistoryChangedAcqNs = sc.HistoryChangedAcqNs
	sc.Stats.Segments += sc.MakePartitions()
	if sc.explain != nil {
		sc.explain.describe(sc)
	}
	more, err := sc.takePass()
	if err != nil {
		return err
	}
	n := sc.workers()
	sc.Stats.Workers = n
	for len(sc.pool) < n {
		sc.pool = append(sc.pool, new(worker))
	}
	all := sc.pool[:n]
	for i, w := range all {
		w.scan, w.number, w.Ctx = sc, i, sc.Ctx
		if sc.lastN == 0 {
			w.RowHider = w
		}
		w.Verify = sc.verify
		if sc.lastN == 0 {
			w.Where = sc.where
			w.CountMet, w.AllVersions = sc.countMet, sc.View == record.ViewAll
		}
		w.CountOnly = sc.CountOnly && sc.View == record.ViewAll && !sc.DropTombstones
		w.CountShown = sc.CountOnly && !w.CountOnly
	}
	for more && err == nil {
		if err = sc.work(all, newConsumer); err == nil {
			sc.done += len(sc.tasks)
			more, err = sc.takePass()
		}
	}
	sc.collect(all)
	return err
}

// takePass is NextPass, and lists the tasks of the pass.
func (sc *Scan) takePass() (bool, error) {
	sc.tasks = sc.tasks[:0]
	more, err := sc.NextPass()
	for _, p := range sc.Pass {
		sc.addTasks(p)
	}
	return more, err
}

func (sc *Scan) collect(all []*worker) {
	for _, w := range all {
		sc.Stats.Add(&w.Counts)
		sc.Stats.Partials += w.partialCount
		sc.Stats.PartialsWithState += w.partialsWithState
	}
	sc.Stats.Add(&sc.VersionLookup.Counts)
}

// discard makes the consumer of scans that only count.
func discard(int) (blocks.Consumer, error) {
	return blocks.Consumer{Rows: func(*record.Batch) error { return nil }}, nil
}
