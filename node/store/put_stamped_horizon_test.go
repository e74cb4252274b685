package store

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestPutStampedDuringHorizon: a horizon that is asked for after a stamped put has looked at the
// floor is kept all the same.
func TestPutStampedDuringHorizon(t *testing.T) {
	var s *Store
	var ask atomic.Bool
	const now = 1_000_000_000_000
	var given atomic.Int64
	s = openTest(t, Options{Now: func() int64 {
		if ask.CompareAndSwap(true, false) { // the committer looks at the time
			horizon, _ := s.clock.horizon()
			given.Store(horizon)
		}
		return now
	}})
	put := func(acq int64) error {
		b := &record.Batch{}
		b.AppendStamped(record.Key{CID: 1, AcqNs: acq}, nil)
		_, err := s.PutStamped(t.Context(), b)
		return err
	}
	if err := put(1000); err != nil {
		t.Fatal(err)
	}
	ask.Store(true)
	err := put(2000)
	if given.Load() <= 2000 {
		t.Fatalf("horizon %d; the test tests nothing", given.Load())
	}
	var e *record.InvalidError
	if !errors.As(err, &e) || e.Part != "acq" {
		t.Errorf("acq 2000 was taken below the horizon %d: %v", given.Load(), err)
	}
}

// TestClaimKeepsHorizons that were given while a stamped put was under way, or before a group that
// failed.
func TestClaimKeepsHorizons(t *testing.T) {
	c := acqClock{now: func() int64 { return 10_000 }}
	c.next, c.logged = 100, 100
	if _, ok := c.claim(5000, 6000); !ok {
		t.Fatal("not taken")
	}
	h, _ := c.horizon()
	c.unclaim(5000) // there was no room
	if _, ok := c.claim(200, 300); ok {
		t.Errorf("acq 200 was taken, below the horizon %d", h)
	}
	failed := c.reserve(10) // and never settled: whether it is on disk is unknown
	if _, ok := c.claim(failed+20, failed+30); !ok {
		t.Fatal("not taken")
	}
	if h, _ := c.horizon(); h > failed {
		t.Errorf("horizon %d above the group at %d that failed", h, failed)
	}
}
