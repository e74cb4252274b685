package store

import (
	"sync"
	"sync/atomic"
)

// workerPool keeps the goroutines of all workers of scans but the first for the next scan: a new
// goroutine must grow its stack first, which takes as long as twenty blocks.
type workerPool struct {
	most int32 // that stay
	ends <-chan struct{}
	work chan func()
	idle atomic.Int32
	all  sync.WaitGroup
}

func newWorkerPool(most int, ends <-chan struct{}) *workerPool {
	return &workerPool{most: int32(most), ends: ends, work: make(chan func())}
}

// run runs f in another goroutine. Nobody calls it beside wait.
func (h *workerPool) run(f func()) {
	select {
	case h.work <- f:
	default:
		h.all.Go(func() { h.runAll(f) })
	}
}

func (h *workerPool) runAll(f func()) {
	for {
		f()
		f = nil // it must not keep what it used
		if h.idle.Add(1) > h.most {
			h.idle.Add(-1)
			return
		}
		select {
		case f = <-h.work:
			h.idle.Add(-1)
		case <-h.ends:
			return
		}
	}
}

// wait waits until all have ended, which they do when they are told to.
func (h *workerPool) wait() { h.all.Wait() }
