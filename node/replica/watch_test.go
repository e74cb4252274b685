package replica

import (
	"testing"
	"time"
)

// A process that stood still finds its flush under way and ends only when the disk goes on not to
// answer.
func TestSleepIsNoStall(t *testing.T) {
	a := newAlone(t)
	const tick = 50 * time.Millisecond
	ticks := func(n int) {
		for range n {
			a.now += tick
			a.Tick()
		}
	}
	ticks(1)
	a.flusher.began.Store(int64(a.now) + 1) // a flush that does not return
	ticks(4)
	a.now += 83 * time.Second
	a.Tick()
	if a.stalled.Load() || len(a.failed) != 0 {
		t.Fatalf("after a sleep: stalled %v, failed %v", a.stalled.Load(), a.failed)
	}
	ticks(int(stallAfter / tick))
	if !a.stalled.Load() || len(a.failed) != 0 {
		t.Fatalf("after a stall: stalled %v, failed %v", a.stalled.Load(), a.failed)
	}
	ticks(int(failAfter / tick))
	if len(a.failed) != 1 {
		t.Fatalf("after a long stall: %v", a.failed)
	}
}

// A flush that begins as the process wakes, and before anybody looks, is watched from then on.
func TestAFlushAfterASleepMayStall(t *testing.T) {
	a := newAlone(t)
	a.Tick()
	a.now += time.Hour
	a.flusher.began.Store(int64(a.now) + 1)
	for range 3 + failAfter/(50*time.Millisecond) {
		a.Tick()
		a.now += 50 * time.Millisecond
	}
	if !a.stalled.Load() || len(a.failed) != 1 {
		t.Fatalf("stalled %v, failed %v", a.stalled.Load(), a.failed)
	}
}
