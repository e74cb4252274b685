package index

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestKeepReady: at rest there are as many slabs as were asked for, and again after a burst has
// used them up; of what is given back, as many are kept.
func TestKeepReady(t *testing.T) {
	p, count := &slabPool{whole: sync.Pool{New: func() any { return newSlab(slabBytes) }}}, 3
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.keepReady(ctx, count, time.Millisecond)
	}()
	ready := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.ready)
	}
	rested := func(when string) {
		t.Helper()
		for began := time.Now(); ready() < count; runtime.Gosched() {
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: %d are ready after a minute, want %d", when, ready(), count)
			}
		}
		if ready() > count {
			t.Fatalf("%s: %d are ready, want %d", when, ready(), count)
		}
	}
	rested("at first")
	held := map[*slab]share{}
	for range count + 2 {
		r, bytes := p.take(slabUnits)
		if _, twice := held[r.slab]; twice || len(bytes) != slabBytes {
			t.Fatalf("got %d bytes, of a slab that is taken: %v", len(bytes), twice)
		}
		held[r.slab] = r
	}
	rested("after a burst")
	cancel()
	<-ended
	for _, r := range held {
		p.giveBack([]share{r})
	}
	rested("all given back")
	var units []share
	for range count {
		r, _ := p.take(slabUnits)
		units = append(units, r)
	}
	if ready() != 0 {
		t.Errorf("%d are ready after all were taken", ready())
	}
	p.giveBack(units)
	rested("given back again")
}
