package scan

import (
	"slices"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/last"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// worker runs tasks and gathers rows for its consumer.
type worker struct {
	blocks.Gatherer
	workerState
	partials partialBuffers
	finder   versions.SupersededFinder
}

// workerState is what a worker does, and what it has done: all of it that reset forgets.
type workerState struct {
	scan      *Scan
	partition *versions.Partition // that is being scanned
	number    int
	asked     segment.Columns // of what the consumer gets

	partialCount, partialsWithState uint64
}

// reset forgets everything but memory, and of that what only unusual rows need.
func (w *worker) reset() {
	w.workerState = workerState{}
	w.Gatherer.Reset()
}

// DropHidden removes what is not to be shown of the partition that is being scanned.
func (w *worker) DropHidden(b *record.Batch, start int) {
	w.Counts.SupersededRows += w.scan.DropSuperseded(w.partition, b, start)
}

// FindSuperseded finds the superseded rows of a block of the partition that is being scanned.
func (w *worker) FindSuperseded(seg *blocks.PlannedSegment, number uint32, b *segment.Block) (
	positions []uint16, ok bool, err error,
) {
	return w.finder.Find(&w.scan.Resolver, w.partition, seg, number, b)
}

// workInFixedOrder does every n-th task, so that the same rows come to the same sink in the same
// order whenever a scan is repeated.
func (w *worker) workInFixedOrder(workers int, stopped *atomic.Bool) error {
	for i := w.number; i < len(w.scan.tasks) && !stopped.Load(); i += workers {
		if err := w.do(&w.scan.tasks[i]); err != nil {
			return err
		}
	}
	return w.FlushLast()
}

// work does whichever tasks are next, which is faster when tasks differ, or processors. For a
// PartialSink each worker first does the morsels of one contiguous range, and then helps with those
// of others: so a query that is repeated finds more of its blocks in the caches of the processor
// that read them. For other sinks all workers take the tasks of the pass in turn, one by one.
func (w *worker) work(next []atomic.Int32, stopped *atomic.Bool) error {
	all := morselsOf(len(w.scan.tasks))
	if w.Consumer.Partials == nil {
		all, next = morsels{tasks: all.tasks, size: 1}, next[:1]
	}
	for i := range next {
		s := (w.number + i) % len(next)
		from, to := all.at(all.tasks*s/len(next)), all.at(all.tasks*(s+1)/len(next))
		for !stopped.Load() {
			k := from + int(next[s].Add(1)) - 1
			if k >= to {
				break
			}
			if err := w.doMorsel(all.from(k), all.from(k+1)); err != nil {
				return err
			}
		}
	}
	if stopped.Load() {
		return nil
	}
	return w.FlushLast()
}

func (w *worker) do(t *task) error {
	if err := w.scan.Ctx.Err(); err != nil {
		return err
	}
	if t.bySeries {
		return last.Scan(&w.Gatherer, &w.scan.Resolver, int(w.scan.lastN), t.partition.State,
			t.partition.Box)
	}
	if t.head != nil {
		w.partition = t.partition
		return w.scanHead(t)
	}
	w.Box, w.partition = &t.partition.Box, t.partition
	candidates := t.segment.Plan.Candidates[t.from:t.to]
	partials := w.Consumer.Partials
	if partials != nil && partials.Wants(&t.segment.Partials, t.segment.Index.Blocks()) {
		return w.scanWithPartials(t, candidates)
	}
	w.scan.Access.Readahead.Prefetch(t.segment.Segment, candidates)
	return w.Gather(t.segment, candidates)
}

// scanHead gives the rows of a head to the sink; they come in batches of their own.
func (w *worker) scanHead(t *task) error {
	sc := w.scan
	if sc.CountOnly && len(sc.Tombstones) == 0 && sc.CountsHead(t.partition, t.head) {
		n, err := sc.CountHead(t.partition, t.head)
		w.Counts.Rows += n
		w.Counts.HeadRows += n
		return err
	}
	keysOnly := w.KeysOnly() && sc.where == nil
	superseded, err := sc.ScanHead(t.partition, t.head, keysOnly, func(b *record.Batch) error {
		if sc.where != nil && dropUnmet(b, sc.where) == 0 {
			return nil
		}
		w.Counts.Rows += uint64(b.Len())
		w.Counts.HeadRows += uint64(b.Len())
		return w.Consumer.Rows(b)
	})
	w.Counts.SupersededRows += superseded
	return err
}

// attach prepares the worker for a pass: it gets its consumer, unless it has one from a pass
// before. A worker whose scan was stopped gets none: whatever one failed to make, others would fail
// to make again.
func (w *worker) attach(
	newConsumer func(worker int) (blocks.Consumer, error), stopped *atomic.Bool,
) (err error) {
	defer func() { w.Columns = w.scan.columnsRead(w.asked) }()
	if w.Consumer.Rows != nil {
		return nil
	}
	w.scan.attaching.Lock()
	defer w.scan.attaching.Unlock()
	if stopped.Load() {
		return nil
	}
	if w.Consumer, err = newConsumer(w.number); err != nil {
		stopped.Store(true)
	}
	if w.asked = w.Consumer.Columns; w.scan.keysOnly {
		w.asked = w.asked.WithoutRuns() & segment.Keys
	}
	if err == nil && w.scan.drop != nil {
		w.dropRows()
	}
	if w.scan.where != nil && w.scan.lastN > 0 && err == nil {
		w.testLast()
	}
	return err
}

// dropRows makes the consumer get only rows that the scan does not drop, and none as partials.
func (w *worker) dropRows() {
	to := w.Consumer.Rows
	w.Consumer.Partials, w.Consumer.PayloadBuffer = nil, nil
	w.Consumer.Rows = func(b *record.Batch) error {
		rows := b.Len()
		out := blocks.NewRowRemover(b, 0)
		w.scan.drop(b, out.Remove)
		out.End()
		w.Counts.Rows -= uint64(rows - b.Len())
		if b.Len() == 0 {
			return nil
		}
		return to(b)
	}
	w.asked = w.asked.Union(1<<record.CID | 1<<record.MID | 1<<record.Cap)
}

// testLast makes the consumer get only the last readings whose payloads meet the condition.
func (w *worker) testLast() {
	to := w.Consumer.Rows
	w.Consumer.Rows = func(b *record.Batch) error {
		rows := b.Len()
		left := dropUnmet(b, w.scan.where)
		w.Counts.Rows -= uint64(rows - left)
		if left == 0 {
			return nil
		}
		return to(b)
	}
	w.asked = w.asked.Union(segment.Payloads | 1<<record.MOID)
}

// dropUnmet removes the rows whose payloads do not meet a condition, and returns how many are left.
func dropUnmet(b *record.Batch, p *where.Program) int {
	out := blocks.NewRowRemover(b, 0)
	for i := range b.Len() {
		if b.Tomb(i) || !p.Match(b.MOID[i], b.Payload(i)) {
			out.Remove(i)
		}
	}
	out.End()
	return b.Len()
}

// columnsRead returns which columns are read in a pass where some are asked for: whole keys where
// rows may have a newer version.
func (sc *Scan) columnsRead(asked segment.Columns) segment.Columns {
	if sc.View == record.ViewAll ||
		sc.lastN == 0 && !slices.ContainsFunc(sc.Pass, sc.LooksAtKeys) {
		return asked
	}
	return asked.WithoutRuns() | segment.Keys
}
