package store

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// A morsel has at most maxMorselTasks tasks, fewer where there would not be about minMorsels,
	// and one if it is among the last singleTaskMorsels.
	maxMorselTasks    = 4
	minMorsels        = 16
	singleTaskMorsels = 12
	// spinTime is how long a worker that is done waits awake for others that are at work.
	spinTime = 100 * time.Microsecond
)

// ScanStats says what a scan saw and what it cost.
type ScanStats struct {
	HorizonNs int64 // the scan saw every row with acq below this, and no other
	// PurgedAcqNs is the acq of the newest purge, step of a retention or put below the horizon that
	// meets the box, 0 for none: answers from before may differ below their horizons.
	PurgedAcqNs   int64
	Rows          uint64 // rows given to sinks
	Segments      int    // sealed segments that were planned
	BlocksScanned uint64 // blocks opened
	BlocksInside  uint64 // of these, blocks that lie wholly inside the box
	RowsExamined  uint64 // rows of the opened blocks
	HeadRows      uint64 // rows given out by heads
	BytesRead     uint64 // bytes of the opened blocks

	Partials       uint64 // of blocks, see [PartialSink]
	PartialsKnown  uint64 // of these, those whose rows a sink did not need
	VersionsHidden uint64 // rows that were met and left out for a newer version
	Workers        int
	TookNs         int64
}

// Scan gives the rows in the box of q that its view shows to sinks. newSink is called once for
// each worker that finds something to do, in any order, one at a time, while other workers may be
// using theirs; a sink is used by one goroutine at a time. Order, limit and plugins of q are the
// caller's.
//
// The query must be normalised. Errors: ErrClosed, *segment.CorruptError, ctx.Err(), and what
// sinks return.
func (s *Store) Scan(
	ctx context.Context, q *record.Query, newSink func(worker int) (Sink, error),
) (ScanStats, error) {
	return s.ScanColumns(ctx, q, segment.AllColumns, newSink)
}

// ScanColumns is Scan for sinks that look at some parts of rows only: other key columns may hold
// any values, payloads may be empty, and without acq the rows may be unstamped.
func (s *Store) ScanColumns(
	ctx context.Context, q *record.Query, parts segment.Columns,
	newSink func(worker int) (Sink, error),
) (ScanStats, error) {
	return s.ScanInto(ctx, q, func(worker int) (Consumer, error) {
		sink, err := newSink(worker)
		return Consumer{Rows: sink, Columns: parts}, err
	})
}

// ScanInto is ScanColumns for consumers of more kinds. Where nothing can lie in the box, none is
// made.
func (s *Store) ScanInto(
	ctx context.Context, q *record.Query, newConsumer func(worker int) (Consumer, error),
) (ScanStats, error) {
	return s.scanInto(ctx, q, s.newScan, newConsumer)
}

func (s *Store) scanInto(
	ctx context.Context, q *record.Query,
	newScan func(context.Context, *record.Query) (*scan, error),
	newConsumer func(worker int) (Consumer, error),
) (ScanStats, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	began := time.Now()
	sc, err := newScan(ctx, q)
	if err != nil {
		return ScanStats{}, err
	}
	defer sc.giveBack()
	if sc.empty {
		sc.stats.TookNs = int64(time.Since(began))
		return sc.stats, nil
	}
	err = sc.run(newConsumer)
	sc.stats.TookNs = int64(time.Since(began))
	s.counters.scans.Add(1)
	s.counters.blocksScanned.Add(int64(sc.stats.BlocksScanned))
	return sc.stats, s.noteDamage(err)
}

// Count returns how many rows the box of q holds. In the view of all versions, blocks that lie
// inside the box are counted without opening them.
func (s *Store) Count(ctx context.Context, q *record.Query) (uint64, ScanStats, error) {
	keys := *q
	keys.KeysOnly = true
	if q.View == record.ViewAll {
		return s.countAll(ctx, &keys)
	}
	stats, err := s.Scan(ctx, &keys, func(int) (Sink, error) {
		return func(*record.Batch) error { return nil }, nil
	})
	return stats.Rows, stats, err
}

func (s *Store) countAll(ctx context.Context, q *record.Query) (uint64, ScanStats, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	began := time.Now()
	sc, err := s.newScan(ctx, q)
	if err != nil {
		return 0, ScanStats{}, err
	}
	defer sc.giveBack()
	if sc.empty {
		sc.stats.TookNs = int64(time.Since(began))
		return 0, sc.stats, nil
	}
	sc.countOnly = true
	err = sc.run(discard)
	sc.stats.Rows += sc.countedInside
	sc.stats.TookNs = int64(time.Since(began))
	return sc.stats.Rows, sc.stats, s.noteDamage(err)
}

// scan is one running query, and memory that it hands on to the next one.
type scan struct {
	versions.Resolver
	asking
	scanMemory
}

// asking is what is asked, and what came of it.
type asking struct {
	store     *Store
	keysOnly  bool
	countOnly bool
	ordered   bool // sinks fold rows into sums of floats, which depend on the order
	done      int  // tasks of the passes before
	empty     bool
	verify    bool   // every block that is opened is verified
	lastN     uint32 // readings of each series; 0: all

	acq           [1]record.Range
	countedInside uint64
	stats         ScanStats
	explain       *explaining // nil but for Explain
}

type scanMemory struct {
	tasks     []task // of the pass
	pool      []*worker
	attaching sync.Mutex // held while one of the workers gets its consumer
}

// task is a partition of work: a head, blocks [from, to) of a segment's candidates, or with last
// set everything.
type task struct {
	partition *versions.Partition
	head      *index.Head
	segment   *blocks.Planned
	from, to  int
	last      bool
}

// newScan fixes the horizon and the box. For a view that resolves versions the box is widened to
// every acq that can hide a row of the asked ones.
func (s *Store) newScan(ctx context.Context, q *record.Query) (*scan, error) {
	horizon, err := s.Horizon(ctx)
	if err != nil {
		return nil, err
	}
	return s.newScanAt(ctx, q, horizon)
}

// newQuietScan is newScan at the horizon as it is, which does not follow the clock for it.
func (s *Store) newQuietScan(ctx context.Context, q *record.Query) (*scan, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return s.newScanAt(ctx, q, s.clock.Published())
}

func (s *Store) newScanAt(
	ctx context.Context, q *record.Query, horizon int64,
) (*scan, error) {
	sc := scans.Get().(*scan)
	sc.Begin(ctx, &s.from)
	sc.Box, sc.Horizon, sc.View, sc.BySeries = q.Box, horizon, q.View, q.Last > 0
	sc.store, sc.keysOnly, sc.lastN, sc.verify = s, q.KeysOnly, q.Last, q.Verify
	sc.ordered = q.Aggregate.Name != ""
	sc.NoTombs = sc.ordered || len(q.Filters) > 0
	sc.Finder.Verify = q.Verify
	sc.stats.HorizonNs = horizon
	end := horizon
	if q.View == record.ViewAsOf {
		end = min(end, q.AsOfAcqNs)
	}
	sc.End = end
	from := int64(math.MinInt64)
	if acq := q.Box[record.Acq]; len(acq) > 0 {
		from = acq[0].From
		if q.View == record.ViewAll {
			sc.Box[record.Acq] = bounds.Clip(acq, end)
			sc.empty = len(sc.Box[record.Acq]) == 0
			return sc, nil
		}
		sc.Winners = acq
	}
	sc.empty = from >= end
	sc.acq[0] = record.Range{From: from, To: end}
	sc.Box[record.Acq] = sc.acq[:]
	return sc, nil
}

// scans are kept with the memory that they have gathered, so that a query of few rows allocates
// next to nothing.
var scans = sync.Pool{New: func() any { return new(scan) }}

// giveBack ends the use of a scan. What was used is set to zero in its place: a scan is large
// enough for a copy to be felt.
func (sc *scan) giveBack() {
	for _, w := range sc.pool[:min(sc.stats.Workers, len(sc.pool))] {
		w.reset()
	}
	sc.Resolver.Reset()
	sc.tasks = sc.tasks[:0]
	sc.asking = asking{}
	scans.Put(sc)
}

// run works pass after pass off, with more workers than one when there is enough to do.
func (sc *scan) run(newConsumer func(worker int) (Consumer, error)) error {
	defer sc.Release() // after Guard, which looks for a fault in the files of the read states
	return segment.Guard(func() error { return sc.runPasses(newConsumer) }, sc.Mappings)
}

func (sc *scan) runPasses(newConsumer func(worker int) (Consumer, error)) error {
	sc.Acquire()
	sc.stats.PurgedAcqNs = sc.PurgedAcqNs
	sc.stats.Segments += sc.Partition()
	if sc.explain != nil {
		sc.explain.describe(sc)
	}
	more, err := sc.takePass()
	if err != nil {
		return err
	}
	n := sc.workers()
	sc.stats.Workers = n
	for len(sc.pool) < n {
		sc.pool = append(sc.pool, new(worker))
	}
	all := sc.pool[:n]
	for i, w := range all {
		w.scan, w.number, w.Ctx = sc, i, sc.Ctx
		if sc.lastN == 0 {
			w.Resolver = w
		}
		w.Verify, w.CountOnly = sc.verify, sc.countOnly
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

// takePass is nextPass, and lists the tasks of the pass.
func (sc *scan) takePass() (bool, error) {
	sc.tasks = sc.tasks[:0]
	more, err := sc.NextPass()
	for _, p := range sc.Pass {
		sc.addTasks(p)
	}
	return more, err
}

func (sc *scan) collect(all []*worker) {
	for _, w := range all {
		sc.stats.add(&w.Counts)
		sc.stats.Partials += w.partialCount
		sc.stats.PartialsKnown += w.partialsKnown
	}
	sc.stats.add(&sc.Finder.Counts)
}

func (st *ScanStats) add(w *blocks.Counts) {
	st.Rows += w.Rows
	st.BlocksScanned += w.Blocks
	st.BlocksInside += w.Inside
	st.RowsExamined += w.Examined
	st.HeadRows += w.HeadRows
	st.BytesRead += w.Bytes
	st.VersionsHidden += w.Superseded
	st.Segments += w.Planned
}

// discard makes the consumer of scans that only count.
func discard(int) (Consumer, error) {
	return Consumer{Rows: func(*record.Batch) error { return nil }}, nil
}
