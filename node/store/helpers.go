package store

import (
	"sync"
	"sync/atomic"
)

// helpers are the goroutines of workers beside the first. They stay for the next scan: a new one
// has to grow its stack first, which takes as long as twenty blocks.
type helpers struct {
	most int32 // that stay
	ends <-chan struct{}
	work chan func()
	idle atomic.Int32
	all  sync.WaitGroup
}

func newHelpers(most int, ends <-chan struct{}) *helpers {
	return &helpers{most: int32(most), ends: ends, work: make(chan func())}
}

// run runs f in another goroutine. Nobody calls it beside wait.
func (h *helpers) run(f func()) {
	select {
	case h.work <- f:
	default:
		h.all.Go(func() { h.runAll(f) })
	}
}

func (h *helpers) runAll(f func()) {
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
func (h *helpers) wait() { h.all.Wait() }
