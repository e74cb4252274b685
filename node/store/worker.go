package store

import (
	"cmp"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// worker runs tasks and gathers rows for its taker.
type worker struct {
	doing
	workerMemory
}

// doing is what a worker works at, and what it has done.
type doing struct {
	scan     *scan
	number   int
	to       Taker
	reads    segment.Parts   // of rows
	lent     lent            // to the batch
	beside   bool            // other rows are gathered already, see scanApart
	box      *record.Box     // of the piece that is being scanned
	away     bool            // the last of devs is held elsewhere
	searched bool            // devices can be searched for
	block    *segment.Block  // that is open
	stint    cpushare.Worker // of the question that is worked at, if it takes turns
	steps    int             // blocks opened, see step

	rows, blocks, inside, examined, headRows, bytes, hidden, parts, known uint64

	planned int // segments looked at for the newest readings
}

type workerMemory struct {
	copies  bool // what it reads is written elsewhere, see openBlock
	batch   record.Batch
	own     segment.Block
	held    []*held
	only    [1]index.Candidate // held by itself
	sel     []uint32
	span    [1]segment.Span
	tested  []segment.Span // rows that are looked at first of the block that is loaded ahead
	gone    []uint32       // rows of a block that an event hides
	devs    record.Batch   // devices of such rows
	apart   apart
	devices []segment.MIDs    // of the box, in the open block
	flagged []index.Candidate // in which to look for newer versions
}

// reset forgets everything but memory, and of that what only unusual rows need.
func (w *worker) reset() {
	if w.block != nil {
		w.own.Release()
	}
	w.lent.end(&w.batch)
	w.apart.lent.end(&w.apart.batch)
	w.doing = doing{}
	empty(&w.batch)
	empty(&w.apart.batch)
	empty(&w.devs)
}

// empty leaves a batch without rows, and without memory that only unusual rows need.
func empty(batch *record.Batch) {
	batch.Reset()
	if cap(batch.Data) > sinkBytes {
		*batch = record.Batch{}
	}
}

// employ gets the worker its taker, unless it has one from a round before. A worker whose scan was
// stopped gets none: whatever one failed to make, others would fail to make again.
func (w *worker) employ(
	newTaker func(worker int) (Taker, error), stopped *atomic.Bool,
) (err error) {
	if w.to.Rows != nil {
		return nil
	}
	w.scan.employing.Lock()
	defer w.scan.employing.Unlock()
	if stopped.Load() {
		return nil
	}
	if w.to, err = newTaker(w.number); err != nil {
		stopped.Store(true)
	}
	w.reads = w.scan.partsRead(w.to.Parts)
	return err
}

// partsRead returns which parts of rows are read for who looks at some. Views that resolve versions
// look at whole keys.
func (sc *scan) partsRead(parts segment.Parts) segment.Parts {
	if sc.keysOnly {
		parts &= segment.Keys
	}
	if sc.view != record.ViewAll {
		parts |= segment.Keys
	}
	return parts
}

// keysOnly reports whether no payload is read.
func (w *worker) keysOnly() bool { return w.reads&segment.Payloads == 0 }

// workInTurn does every so manieth task, so that the same rows come to the same sink in the same
// order whenever a scan is repeated.
func (w *worker) workInTurn(workers int, stopped *atomic.Bool) error {
	for i := w.number; i < len(w.scan.tasks) && !stopped.Load(); i += workers {
		if err := w.do(&w.scan.tasks[i]); err != nil {
			return err
		}
	}
	return w.flush()
}

// work does whichever tasks are next, which is faster when tasks differ, or processors. Of lots
// each worker has a stretch of its own first, and then helps with those of others: so a question
// that is asked again finds more of its blocks in the caches of the processor that read them.
func (w *worker) work(next []atomic.Int64, stopped *atomic.Bool) error {
	all := lotsOf(len(w.scan.tasks))
	if w.to.Apart == nil {
		all, next = lots{tasks: all.tasks, size: 1}, next[:1]
	}
	for i := range next {
		s := (w.number + i) % len(next)
		from, to := all.at(all.tasks*s/len(next)), all.at(all.tasks*(s+1)/len(next))
		for !stopped.Load() {
			k := from + int(next[s].Add(1)) - 1
			if k >= to {
				break
			}
			if err := w.doLot(all.from(k), all.from(k+1)); err != nil {
				return err
			}
		}
	}
	if stopped.Load() {
		return nil
	}
	return w.flush()
}

// lots are the tasks of a round for who takes rows apart and has work at the end of each lot: a
// worker takes some at once that follow one another, but few of few, and one by one towards the
// end, where workers would wait for one another.
type lots struct {
	tasks int
	large int // lots of several tasks, which come first
	size  int // of these
}

func lotsOf(tasks int) lots {
	size := min(maxLotTasks, 1+tasks/minLots)
	return lots{tasks: tasks, size: size, large: max(0, tasks-singleLots) / size}
}

// from returns the first task of a lot.
func (l *lots) from(lot int) int { return lot + min(lot, l.large)*(l.size-1) }

// at returns the lot of a task, or the first one behind it where its lot begins before it.
func (l *lots) at(task int) int {
	if several := l.large * l.size; task > several {
		return l.large + task - several
	}
	return (task + l.size - 1) / l.size
}

// doLot does the tasks [from, to) of the round.
func (w *worker) doLot(from, to int) error {
	if w.to.Apart != nil {
		w.to.Apart.BeginLot(w.scan.done + from)
	}
	for i := from; i < to; i++ {
		if err := w.do(&w.scan.tasks[i]); err != nil {
			return err
		}
	}
	if w.to.Apart == nil {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.to.Apart.EndLot()
}

func (w *worker) do(t *task) error {
	if err := w.scan.ctx.Err(); err != nil {
		return err
	}
	if t.last {
		return w.last(t.piece.now, t.piece.box)
	}
	if t.head != nil {
		return w.scanHead(t)
	}
	w.box = &t.piece.box
	candidates := t.segment.plan.Candidates[t.from:t.to]
	if w.to.Apart != nil && w.to.Apart.Wants(&t.segment.kept, t.segment.idx.Blocks()) {
		return w.scanCandidates(t, candidates)
	}
	w.scan.store.fetch(t.segment.sealedSegment, candidates)
	for len(candidates) > 0 {
		n, hold := 1, w.isHeld(t.segment, candidates[0])
		for n < len(candidates) && w.isHeld(t.segment, candidates[n]) == hold {
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
		return w.scanHeld(t, candidates)
	}
	for i, c := range candidates {
		if len(candidates) > frontsAhead {
			w.ahead(t.segment, candidates, i)
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
	err := w.to.Rows(&w.batch)
	w.batch.Reset()
	if w.lent.end(&w.batch) {
		w.to.Room = nil // it is too small
	}
	return cmp.Or(err, w.stint.Yield(w.scan.ctx))
}

// lent is memory of a taker in which the payloads of a batch are put together.
type lent struct {
	bytes int    // 0: there is none
	own   []byte // of the batch
}

// begin lets the payloads of an empty batch lie in a room.
func (l *lent) begin(b *record.Batch, room []byte) {
	if l.bytes == 0 && len(room) > 0 {
		l.bytes, l.own = len(room), b.Data
		b.Data = room[:0:len(room)]
	}
}

// end gives a batch, which is empty, its own memory back, and reports whether the payloads did not
// fit into what was lent.
func (l *lent) end(b *record.Batch) (outgrown bool) {
	if l.bytes == 0 {
		return false
	}
	outgrown = cap(b.Data) != l.bytes
	if !outgrown {
		b.Data = l.own[:0]
	}
	*l = lent{}
	return outgrown
}
