package node

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestDiffsWaitForTheirMoments: what comes before the second one would be missing.
func TestDiffsWaitForTheirMoments(t *testing.T) {
	s := openSpread(t, 2, 2)
	s.fill(rand.New(rand.NewPCG(1, 9)), 1)
	to := s.clock.Load() + 1000
	diff := func(ctx context.Context) (wire.End, error) {
		return s.near().Diff(ctx, &record.Diff{ToNs: to},
			func(*record.Differences) error { return nil })
	}
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if end, err := diff(soon); err == nil || toWire(err).Kind != wire.KindTimeout {
		t.Errorf("before its moment: %+v, %v", end, err)
	}
	s.clock.Store(to + int64(time.Second))
	if end, err := diff(t.Context()); err != nil || end.HorizonNs < to {
		t.Errorf("after its moment: %+v, %v", end, err)
	}
}
