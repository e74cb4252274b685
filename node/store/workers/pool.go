// Package workers keeps goroutines for the next one who has something to run.
//
// It does not know what they run. Its main type is [Pool], which starts them and waits for them.
package workers

import (
	"sync"
	"sync/atomic"
)

// Pool keeps the goroutines of all workers of scans but the first for the next scan: a new
// goroutine must grow its stack first, which takes as long as twenty blocks.
type Pool struct {
	most int32 // that stay
	ends <-chan struct{}
	work chan func()
	idle atomic.Int32
	all  sync.WaitGroup
}

// NewPool returns a pool of which at most this number of goroutines stay, until ends is closed.
func NewPool(most int, ends <-chan struct{}) *Pool {
	return &Pool{most: int32(most), ends: ends, work: make(chan func())}
}

// Run runs f in another goroutine. It must not be called concurrently with Wait.
func (h *Pool) Run(f func()) {
	select {
	case h.work <- f:
	default:
		h.all.Go(func() { h.runAll(f) })
	}
}

func (h *Pool) runAll(f func()) {
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

// Wait waits until all have ended, which they do when they are told to.
func (h *Pool) Wait() { h.all.Wait() }
