package index

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// TestKeepReady: at rest there are as many slabs as were asked for, all of which were touched, and
// again after a burst has used them up; of what is given back, as many are kept until no one asks
// for them any more.
func TestKeepReady(t *testing.T) {
	p, count := &slabPool{}, 3
	p.whole.New = func() any {
		s := newSlab(slabBytes)
		for at := 0; at < len(s.bytes); at += pageBytes {
			s.bytes[at] = 1
		}
		return s
	}
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
	for k := range count + 2 {
		r, bytes := p.take(slabUnits)
		if _, twice := held[r.slab]; twice || len(bytes) != slabBytes {
			t.Fatalf("got %d bytes, of a slab that is taken: %v", len(bytes), twice)
		}
		for at := 0; k < count && at < slabBytes; at += pageBytes {
			if bytes[at] != 0 {
				t.Fatalf("page %d of a slab that is ready was not touched", at/pageBytes)
			}
		}
		held[r.slab] = r
	}
	rested("after a burst")
	for _, r := range held {
		p.giveBack([]share{r})
	}
	rested("all given back")
	cancel()
	<-ended
	if ready() != 0 {
		t.Errorf("%d are ready although nobody asks for them", ready())
	}
}

// TestKeepPrefaultedPauses: while slabs are begun none are made ready.
func TestKeepPrefaultedPauses(t *testing.T) {
	p := &slabPool{}
	p.whole.New = func() any { return newSlab(slabBytes) }
	begun := p.rest(2)
	if !p.isShort(begun) {
		t.Error("none are ready, and none are made")
	}
	r, _ := p.take(1)
	if p.isShort(begun) {
		t.Error("some are made ready although a slab was begun")
	}
	if begun = p.rest(2); !p.isShort(begun) {
		t.Error("after a rest none are made ready")
	}
	p.giveBack([]share{r})
	if p.rest(1); p.isShort(begun) {
		t.Error("what was given back is not ready")
	}
}
