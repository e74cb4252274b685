package engine

import (
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/feed"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestGroupsThatLeaveANode: who reads or waits there is told to ask another node.
func TestGroupsThatLeaveANode(t *testing.T) {
	e := openEngine(t)
	here := *e.routes.Load().single
	e.SetRoutes(Routes{Groups: []GroupLocation{{Peers: []*Peer{NewPeer(0, "another", nil)}}}})
	var wg sync.WaitGroup
	for what, ask := range map[string]func() error{
		"a feed": func() error {
			return here.changes(t.Context(), &prepared{Query: &record.Query{}}, 0, true,
				new(feed.Demand), func(*store.Slice) error { return nil })
		},
		"a query": func() error {
			later := here
			later.afterNs = time.Now().UnixNano() + 1e18
			return later.wait(t.Context())
		},
	} {
		wg.Go(func() {
			err := ask()
			e := nodeerror.ToWire(&nodeerror.SourceError{Source: "group", Err: err})
			if e.Kind != wire.KindUnavailable || !sourceUnavailable(err) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	wg.Wait()
}
