package store

import (
	"cmp"
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// sinkRows is about how many rows a sink gets at once: enough to amortise a call into a
	// plugin, few enough to stay in the CPU caches.
	sinkRows = 2048
	// spanRows is how many neighbouring rows of a block are gathered at once.
	spanRows = 4096
	// sinkBytes is how many payload bytes make a sink be called early: with one payload of the
	// largest size more they still fit a frame.
	sinkBytes = 8 << 20
	// chunkBlocks is how many neighbouring blocks a worker takes at once.
	chunkBlocks = 8
	// A lot has at most maxLotTasks tasks, fewer where there would not be about minLots, and one
	// if it is among the last singleLots.
	maxLotTasks = 4
	minLots     = 16
	singleLots  = 12
	// patience is how long a worker that is done waits awake for others that are at work.
	patience = 100 * time.Microsecond
)

// Sink takes the rows of a scan, a few thousand at a time, stamped, in no order. The batch is
// valid during the call. An error ends the scan.
type Sink func(b *record.Batch) error

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

	Parts          uint64 // of blocks, see [Apart]
	PartsKnown     uint64 // of these, those whose rows a sink did not need
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
	return s.ScanParts(ctx, q, segment.AllParts, newSink)
}

// ScanParts is Scan for sinks that look at some parts of rows only: other key columns may hold any
// values, payloads may be empty, and without acq the rows may be unstamped.
func (s *Store) ScanParts(
	ctx context.Context, q *record.Query, parts segment.Parts,
	newSink func(worker int) (Sink, error),
) (ScanStats, error) {
	return s.ScanInto(ctx, q, func(worker int) (Taker, error) {
		sink, err := newSink(worker)
		return Taker{Rows: sink, Parts: parts}, err
	})
}

// Taker is where a worker's rows go.
type Taker struct {
	Rows  Sink
	Parts segment.Parts // of rows that Rows looks at
	// Apart takes parts of blocks apart; with nil nobody does.
	Apart Apart
	// Room, unless it is nil, is asked before rows are put together, and what it returns, nil for
	// nothing, is where their payloads are to lie. It is the worker's until it has given the rows
	// to Rows. With beside, other rows still lie in what it returned without. Payloads that do not
	// fit lie elsewhere. In a view that resolves versions there may be payloads in it that are
	// given to nobody.
	Room func(beside bool) []byte
	// Leave, unless it is nil, is called where another worker than the first has given all its
	// rows. The scan does not wait for it to return.
	Leave func()
}

// ScanInto is ScanParts for takers of more kinds. Where nothing can lie in the box, none is made.
func (s *Store) ScanInto(
	ctx context.Context, q *record.Query, newTaker func(worker int) (Taker, error),
) (ScanStats, error) {
	return s.scanInto(ctx, q, s.newScan, newTaker)
}

func (s *Store) scanInto(
	ctx context.Context, q *record.Query,
	newScan func(context.Context, *record.Query) (*scan, error),
	newTaker func(worker int) (Taker, error),
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
	err = sc.run(newTaker)
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
	err = sc.run(nobody)
	sc.stats.Rows += sc.countedInside
	sc.stats.TookNs = int64(time.Since(began))
	return sc.stats.Rows, sc.stats, s.noteDamage(err)
}

// nobody takes rows of who only wants to know what is found.
func nobody(int) (Taker, error) {
	return Taker{Rows: func(*record.Batch) error { return nil }}, nil
}

// scan is one running query, and memory that it hands on to the next one.
type scan struct {
	asking
	scanMemory
}

// asking is what is asked, and what came of it.
type asking struct {
	ctx       context.Context
	store     *Store
	keysOnly  bool
	countOnly bool
	inTurn    bool // sinks fold rows into sums of floats, which depend on the order
	done      int  // tasks of the rounds before
	empty     bool
	noTombs   bool // also in the view of all versions: plugins never see tombstones
	verify    bool // every block that is opened is verified

	box     record.Box // what rows must satisfy to be looked at
	winners record.RangeSet

	view    record.View
	lastN   uint32 // readings of each series; 0: all
	horizon int64
	end     int64 // rows and erases with this acq or a greater one are not looked at

	acq           [1]record.Range
	found         int  // how many blocks were opened to find newer versions
	seenOnce      bool // they are not scanned
	countedInside uint64
	stats         ScanStats
	explain       *explaining // nil but for Explain
}

type scanMemory struct {
	hidden    []*hider // what hides rows of the box, oldest first
	snapshots []*snapshot
	waiting   []*piece // not scanned yet; the last one comes next
	round     []*piece // being scanned
	tasks     []task   // of the round
	pool      []*worker
	finder    worker // opens blocks to find newer versions
	opened    []*found
	employing sync.Mutex // held while one of the workers gets its taker
}

// segmentScan is one sealed segment's part of a scan.
type segmentScan struct {
	*sealedSegment
	plan   *index.Plan
	ranks  record.RangeSet // the box's acq as ranks of this segment
	found  []*found        // blocks that are open already, ascending
	hidden []hiddenBox
}

// task is a piece of work: a head, blocks [from, to) of a segment's candidates, or with last set
// everything.
type task struct {
	piece    *piece
	head     *index.Head
	segment  *segmentScan
	from, to int
	last     bool
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
	return s.newScanAt(ctx, q, s.clock.settled())
}

func (s *Store) newScanAt(
	ctx context.Context, q *record.Query, horizon int64,
) (*scan, error) {
	sc := scans.Get().(*scan)
	sc.ctx, sc.store, sc.box, sc.horizon = ctx, s, q.Box, horizon
	sc.keysOnly, sc.view, sc.lastN, sc.verify = q.KeysOnly, q.View, q.Last, q.Verify
	s.blockClock.Look()
	sc.inTurn = q.Aggregate.Name != ""
	sc.noTombs = sc.inTurn || len(q.Filters) > 0
	sc.finder.scan = sc
	sc.stats.HorizonNs = horizon
	end := horizon
	if q.View == record.ViewAsOf {
		end = min(end, q.AsOfAcqNs)
	}
	sc.end = end
	from := int64(math.MinInt64)
	if acq := q.Box[record.Acq]; len(acq) > 0 {
		from = acq[0].From
		if q.View == record.ViewAll {
			sc.box[record.Acq] = clipSet(acq, end)
			sc.empty = len(sc.box[record.Acq]) == 0
			return sc, nil
		}
		sc.winners = acq
	}
	sc.empty = from >= end
	sc.acq[0] = record.Range{From: from, To: end}
	sc.box[record.Acq] = sc.acq[:]
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
	sc.finder.reset()
	clear(sc.snapshots)
	clear(sc.hidden)
	sc.snapshots, sc.hidden = sc.snapshots[:0], sc.hidden[:0]
	sc.waiting, sc.round, sc.tasks = sc.waiting[:0], sc.round[:0], sc.tasks[:0]
	sc.asking = asking{}
	scans.Put(sc)
}

func clipSet(set record.RangeSet, end int64) record.RangeSet {
	var out record.RangeSet
	for _, r := range set {
		if r.From < end {
			out = append(out, record.Range{From: r.From, To: min(r.To, end)})
		}
	}
	return out
}

// run works round after round off, with more workers than one when there is enough to do.
func (sc *scan) run(newTaker func(worker int) (Taker, error)) error {
	defer sc.release() // after Guard, which looks for a fault in the files of the snapshots
	return segment.Guard(func() error { return sc.rounds(newTaker) }, sc.mappings)
}

func (sc *scan) rounds(newTaker func(worker int) (Taker, error)) error {
	sc.begin()
	more, err := sc.nextRound()
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
		w.scan, w.number = sc, i
	}
	for more && err == nil {
		if err = sc.work(all, newTaker); err == nil {
			sc.done += len(sc.tasks)
			more, err = sc.nextRound()
		}
	}
	sc.collect(all)
	return err
}

// work works the tasks of a round off.
func (sc *scan) work(all []*worker, newTaker func(worker int) (Taker, error)) error {
	if len(all) > 1 {
		return sc.workTogether(all, newTaker)
	}
	var next [1]atomic.Int64
	var stopped atomic.Bool
	all[0].stint = cpushare.Of(sc.ctx).Start()
	defer all[0].stint.Stop()
	if err := all[0].employ(newTaker, &stopped); err != nil {
		return err
	}
	return all[0].work(next[:], &stopped)
}

// mappings yields the files that the scan reads, also those that a merge has replaced meanwhile.
func (sc *scan) mappings(yield func(*segment.Sealed) bool) {
	for _, now := range sc.snapshots {
		for file := range now.mappings {
			if !yield(file) {
				return
			}
		}
	}
}

// workTogether is work of several workers, of which the caller is the first.
func (sc *scan) workTogether(
	all []*worker, newTaker func(worker int) (Taker, error),
) error {
	var wg sync.WaitGroup
	next := make([]atomic.Int64, len(all))
	last := len(sc.waiting) == 0 // of the rounds
	var stopped, allTaken atomic.Bool
	if err := all[0].employ(newTaker, &stopped); err != nil {
		return err
	}
	var asleep, busy atomic.Int32 // of the others
	asleep.Store(int32(len(all) - 1))
	sc.store.together.Add(1)
	defer sc.store.together.Add(-1)
	errs := make([]error, len(all))
	question := cpushare.Of(sc.ctx)
	work := func(i int) {
		w := all[i]
		w.stint = question.Start()
		defer w.stint.Stop()
		errs[i] = segment.Guard(func() error {
			if allTaken.Load() { // as it woke late
				return nil
			}
			if err := w.employ(newTaker, &stopped); err != nil || w.to.Rows == nil {
				return err
			}
			if sc.inTurn && w.to.Apart == nil {
				return w.workInTurn(len(all), &stopped)
			}
			defer allTaken.Store(true)
			return w.work(next, &stopped)
		}, sc.mappings)
		if errs[i] != nil {
			stopped.Store(true)
		}
	}
	help := func(i int) (leave func()) {
		defer wg.Done() // also when a sink ends its goroutine
		busy.Add(1)
		defer busy.Add(-1)
		asleep.Add(-1)
		work(i)
		return all[i].to.Leave
	}
	done := false
	defer func() { // also when the caller panics: the others use what is given back then
		if !done {
			stopped.Store(true)
			wg.Wait()
		}
	}()
	for i := range len(all) - 1 {
		wg.Add(1)
		sc.store.helpers.run(func() {
			if leave := help(i + 1); last && leave != nil {
				leave()
			}
		})
	}
	// Of the goroutines that wait to run, another processor takes the one that was made last only
	// after a pause.
	go func() {}()
	work(0)
	sc.waitAwake(&asleep, &busy)
	wg.Wait()
	done = true
	return cmp.Or(errs...)
}

// waitAwake waits for the other workers a while: to sleep and be woken takes longer than they have
// left to do, mostly. But those who have not begun may wait for this processor, and so may other
// scans.
func (sc *scan) waitAwake(asleep, busy *atomic.Int32) {
	for began := time.Now(); asleep.Load() == 0 && busy.Load() > 0 &&
		sc.store.together.Load() == 1 && time.Since(began) < patience; {
	}
}

func (sc *scan) collect(all []*worker) {
	for _, w := range all {
		sc.stats.add(w)
	}
	sc.stats.add(&sc.finder)
}

func (st *ScanStats) add(w *worker) {
	st.Rows += w.rows
	st.BlocksScanned += w.blocks
	st.BlocksInside += w.inside
	st.RowsExamined += w.examined
	st.HeadRows += w.headRows
	st.BytesRead += w.bytes
	st.VersionsHidden += w.hidden
	st.Parts += w.parts
	st.PartsKnown += w.known
	st.Segments += w.planned
}
