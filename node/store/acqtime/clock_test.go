package acqtime

import (
	"testing"
)

// TestClaimKeepsHorizons that were given while a stamped put was under way, or before a group that
// failed.
func TestClaimKeepsHorizons(t *testing.T) {
	c := New(func() int64 { return 10_000 })
	c.next, c.logged = 100, 100
	if _, ok := c.Claim(5000, 6000); !ok {
		t.Fatal("not taken")
	}
	h, _ := c.Horizon()
	c.Unclaim(5000) // there was no room
	if _, ok := c.Claim(200, 300); ok {
		t.Errorf("acq 200 was taken, below the horizon %d", h)
	}
	failed := c.Reserve(10) // and never published: whether it is on disk is unknown
	if _, ok := c.Claim(failed+20, failed+30); !ok {
		t.Fatal("not taken")
	}
	if h, _ := c.Horizon(); h > failed {
		t.Errorf("horizon %d above the group at %d that failed", h, failed)
	}
}
