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
			horizon, _ := s.oracle.Horizon()
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
