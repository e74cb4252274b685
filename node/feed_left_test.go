package node

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/feed"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestGroupsThatLeaveANode: who reads or waits there is told to ask another node.
func TestGroupsThatLeaveANode(t *testing.T) {
	s := openSpread(t, 1, 1)
	s.fill(rand.New(rand.NewPCG(1, 8)), 1)
	here := *s.near().routes.Load().groups[0].local
	s.near().routes.Store(&routingTable{groups: []*groupRoute{{peer: &peer{name: "another"}}},
		owners: evenParts(1)})
	var wg sync.WaitGroup
	for what, ask := range map[string]func() error{
		"a feed": func() error {
			return here.changes(t.Context(), &record.Query{}, 0, true, new(feed.Demand),
				func(*store.Slice) error { return nil })
		},
		"a question": func() error {
			later := here
			later.afterNs = s.clock.Load() + 1e18
			return later.wait(t.Context())
		},
	} {
		wg.Go(func() {
			err := ask()
			e := toWire(&SourceError{Source: "group", Err: err})
			if e.Kind != wire.KindUnavailable || !sourceUnavailable(err) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	wg.Wait()
}

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
