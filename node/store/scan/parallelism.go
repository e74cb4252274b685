package scan

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
)

// A second worker has to be woken, which takes as long as a processor that is awake needs for a
// hundred blocks. So it must be worth it, counted in rows that are read.
const (
	// ParallelRows is how many rows make a second worker pay. The 5,000 rows of a quarter of an
	// hour, in 80 blocks, take one worker 150 µs and two 120.
	ParallelRows = 7000
	// blockRows is how many rows cost as much as opening a block and searching it.
	blockRows = 32
	// parallelHeadRows is how many rows of heads make one pay, most of which are not looked at.
	parallelHeadRows = 1 << 16
)

// mostWorkers returns how many workers the scan may have.
func (sc *Scan) mostWorkers() int { return max(1, sc.runner.Workers/max(1, sc.ConcurrentScans)) }

// workers returns how many workers are worth it for the tasks.
func (sc *Scan) workers() int {
	most := max(1, min(sc.mostWorkers(), len(sc.tasks)))
	if sc.lastN > 0 {
		return most
	}
	blocks, headRows := 0, 0
	for i := range sc.tasks {
		if t := &sc.tasks[i]; t.head != nil {
			headRows += t.head.Rows()
		} else {
			blocks += t.to - t.from
		}
	}
	switch {
	case len(sc.Waiting) > 0:
		return sc.mostWorkers()
	case headRows >= parallelHeadRows || sc.isMuch(blocks*blockRows):
		return most
	}
	return 1
}

// isMuch reports whether the tasks read enough rows beside what opening their blocks costs.
func (sc *Scan) isMuch(rows int) bool {
	enough := sc.runner.MinParallelRows
	for i := 0; i < len(sc.tasks) && rows < enough; i++ {
		t := &sc.tasks[i]
		if t.segment == nil {
			continue
		}
		for _, c := range t.segment.Plan.Candidates[t.from:t.to] {
			ofBlock := t.segment.RowsIn(&t.partition.Box, c)
			if sc.CountOnly && c.Residual == 0 {
				ofBlock = t.partition.RowsToSearch(ofBlock)
			}
			rows += ofBlock
		}
	}
	return rows >= enough
}

// work works the tasks of a pass off.
func (sc *Scan) work(all []*worker, newConsumer func(worker int) (blocks.Consumer, error)) error {
	if len(all) > 1 {
		return sc.workTogether(all, newConsumer)
	}
	var next [1]atomic.Int32 // one of 64 bits escapes to the heap on processors of 32
	var stopped atomic.Bool
	all[0].CPU = cpushare.Of(sc.Ctx).Start()
	defer all[0].CPU.Stop()
	if err := all[0].attach(newConsumer, &stopped); err != nil {
		return err
	}
	return all[0].work(next[:], &stopped)
}

// workTogether is work of several workers, of which the caller is the first.
func (sc *Scan) workTogether(
	all []*worker, newConsumer func(worker int) (blocks.Consumer, error),
) error {
	var wg sync.WaitGroup
	next := make([]atomic.Int32, len(all))
	last := len(sc.Waiting) == 0 // of the passes
	var stopped, allTaken atomic.Bool
	if err := all[0].attach(newConsumer, &stopped); err != nil {
		return err
	}
	var asleep, busy atomic.Int32 // of the others
	asleep.Store(int32(len(all) - 1))
	sc.runner.running.Add(1)
	defer sc.runner.running.Add(-1)
	errs := make([]error, len(all))
	share := cpushare.Of(sc.Ctx)
	work := func(i int) {
		w := all[i]
		w.CPU = share.Start()
		defer w.CPU.Stop()
		errs[i] = segment.CatchPageFaults(func() error {
			if allTaken.Load() { // as it woke late
				return nil
			}
			if err := w.attach(newConsumer, &stopped); err != nil || w.Consumer.Rows == nil {
				return err
			}
			if sc.fixedOrder && w.Consumer.Partials == nil {
				return w.workInFixedOrder(len(all), &stopped)
			}
			defer allTaken.Store(true)
			return w.work(next, &stopped)
		}, sc.Files)
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
		return all[i].Consumer.Done
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
		sc.runner.Pool.Run(func() {
			if leave := help(i + 1); last && leave != nil {
				leave()
			}
		})
	}
	// Of the goroutines that wait to run, another processor takes the one that was made last only
	// after a pause.
	go func() {}()
	work(0)
	sc.spin(&asleep, &busy)
	wg.Wait()
	done = true
	return cmp.Or(errs...)
}

// spin waits for the other workers for up to spinTime without parking, because a wake-up mostly
// takes longer than they need to finish. It parks at once if a worker has not begun, or another
// scan runs: they may need this processor.
func (sc *Scan) spin(asleep, busy *atomic.Int32) {
	for began := time.Now(); asleep.Load() == 0 && busy.Load() > 0 &&
		sc.runner.running.Load() == 1 && time.Since(began) < spinTime; {
	}
}

// spinTime is how long a worker that is done waits awake for others that are at work.
const spinTime = 100 * time.Microsecond
