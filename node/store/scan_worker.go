package store

import (
	"cmp"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// worker runs tasks and gathers rows for its consumer.
type worker struct {
	doing
	workerMemory
}

// doing is what a worker works at, and what it has done.
type doing struct {
	scan     *scan
	number   int
	consumer Consumer
	columns  segment.Columns // of rows
	lent     lentBuffer      // to the batch
	nested   bool            // other rows are gathered already, see scanPartial
	box      *record.Box     // of the partition that is being scanned
	outside  bool            // the last of devs is held elsewhere
	searched bool            // devices can be searched for
	block    *segment.Block  // that is open
	stint    cpushare.Worker // of the question that is worked at, if it takes turns
	steps    int             // blocks opened, see step

	rows, blocks, inside, examined, headRows, bytes, superseded, partialCount, partialsKnown uint64

	planned int // segments looked at for the newest readings
}

type workerMemory struct {
	copies     bool // what it reads is written elsewhere, see openBlock
	batch      record.Batch
	own        segment.Block
	prefetched []*prefetchedBlock
	single     [1]index.Candidate // held by itself
	sel        []uint32
	span       [1]segment.Span
	tested     []segment.Span // rows that are looked at first of the block that is loaded ahead
	covered    []uint32       // rows of a block that an event hides
	devs       record.Batch   // devices of such rows
	partials   partialMemory
	devices    []segment.MIDs    // of the box, in the open block
	flagged    []index.Candidate // in which to look for newer versions
}

// reset forgets everything but memory, and of that what only unusual rows need.
func (w *worker) reset() {
	if w.block != nil {
		w.own.Release()
	}
	w.lent.end(&w.batch)
	w.partials.lent.end(&w.partials.batch)
	w.doing = doing{}
	empty(&w.batch)
	empty(&w.partials.batch)
	empty(&w.devs)
}

// empty leaves a batch without rows, and without memory that only unusual rows need.
func empty(batch *record.Batch) {
	batch.Reset()
	if cap(batch.Data) > sinkBytes {
		*batch = record.Batch{}
	}
}

// workOrdered does every n-th task, so that the same rows come to the same sink in the same
// order whenever a scan is repeated.
func (w *worker) workOrdered(workers int, stopped *atomic.Bool) error {
	for i := w.number; i < len(w.scan.tasks) && !stopped.Load(); i += workers {
		if err := w.do(&w.scan.tasks[i]); err != nil {
			return err
		}
	}
	return w.flush()
}

// work does whichever tasks are next, which is faster when tasks differ, or processors. Of morsels
// each worker has a stretch of its own first, and then helps with those of others: so a question
// that is asked again finds more of its blocks in the caches of the processor that read them.
func (w *worker) work(next []atomic.Int64, stopped *atomic.Bool) error {
	all := morselsOf(len(w.scan.tasks))
	if w.consumer.Partials == nil {
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
	return w.flush()
}

func (w *worker) do(t *task) error {
	if err := w.scan.ctx.Err(); err != nil {
		return err
	}
	if t.last {
		return w.last(t.partition.state, t.partition.box)
	}
	if t.head != nil {
		return w.scanHead(t)
	}
	w.box = &t.partition.box
	candidates := t.segment.plan.Candidates[t.from:t.to]
	partials := w.consumer.Partials
	if partials != nil && partials.Wants(&t.segment.Kept, t.segment.Index.Blocks()) {
		return w.scanWithPartials(t, candidates)
	}
	w.scan.store.readAhead(t.segment.Segment, candidates)
	for len(candidates) > 0 {
		n, hold := 1, w.isBatchable(t.segment, candidates[0])
		for n < len(candidates) && w.isBatchable(t.segment, candidates[n]) == hold {
			n++
		}
		if err := w.scanBlocks(t, candidates[:n], hold); err != nil {
			return err
		}
		candidates = candidates[n:]
	}
	return nil
}

func (w *worker) scanBlocks(t *task, candidates []index.Candidate, hold bool) error {
	if hold {
		return w.scanBatch(t, candidates)
	}
	for i, c := range candidates {
		if len(candidates) > frontDistance {
			w.prefetchNext(t.segment, candidates, i)
		}
		if err := w.scanBlock(t, c); err != nil {
			return err
		}
	}
	return nil
}

// stepBlocks is after how many blocks a worker looks whether it is still its turn: to look at the
// clock takes as long as opening the tenth of a small one.
const stepBlocks = 16

// step is called for each block; merges take no turns.
func (w *worker) step() error {
	if w.steps++; w.steps%stepBlocks != 0 || w.scan == nil {
		return nil
	}
	return w.stint.Yield(w.scan.ctx)
}

// flush hands the gathered rows to the sink.
func (w *worker) flush() error {
	n := w.batch.Len()
	if n == 0 {
		return nil
	}
	w.rows += uint64(n)
	err := w.consumer.Rows(&w.batch)
	w.batch.Reset()
	if w.lent.end(&w.batch) {
		w.consumer.PayloadBuffer = nil // it is too small
	}
	return cmp.Or(err, w.stint.Yield(w.scan.ctx))
}
