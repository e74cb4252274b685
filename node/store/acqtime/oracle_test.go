package acqtime

import (
	"testing"
)

// TestReserveAtKeepsHorizons that were given while a stamped put was in flight, or before a commit
// that failed.
func TestReserveAtKeepsHorizons(t *testing.T) {
	o := New(func() int64 { return 10_000 })
	o.next, o.durable = 100, 100
	if _, ok := o.ReserveAt(5000, 6000); !ok {
		t.Fatal("not taken")
	}
	h, _ := o.Horizon()
	o.UnreserveFrom(5000) // there was no space
	if _, ok := o.ReserveAt(200, 300); ok {
		t.Errorf("acq 200 was taken, below the horizon %d", h)
	}
	failed := o.Reserve(10) // and never published: whether it is on disk is unknown
	if _, ok := o.ReserveAt(failed+20, failed+30); !ok {
		t.Fatal("not taken")
	}
	if h, _ := o.Horizon(); h > failed {
		t.Errorf("horizon %d above the commit at %d that failed", h, failed)
	}
}
