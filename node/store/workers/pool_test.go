package workers

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestHelpers: everything is run, at once where nobody is idle, and no more stay than may.
func TestHelpers(t *testing.T) {
	ends := make(chan struct{})
	h := NewPool(2, ends)
	for range 20 {
		var wg sync.WaitGroup
		together := make(chan struct{})
		var running atomic.Int32
		for range 5 {
			wg.Add(1)
			h.Run(func() {
				defer wg.Done()
				if running.Add(1) == 5 {
					close(together)
				}
				<-together
			})
		}
		wg.Wait()
	}
	for h.idle.Load() != 2 {
		runtime.Gosched()
	}
	close(ends)
	h.Wait()
}
