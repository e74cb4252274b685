package node

import (
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// A group without a known node keeps its old route, if there is one; else the other groups are
// still read.
func TestGroupWithoutNode(t *testing.T) {
	s := openSpread(t, 2, 1)
	s.fill(rand.New(rand.NewPCG(1, 8)), 1)
	n := s.near()
	all, _, err := n.Count(t.Context(), &record.Query{})
	if err != nil || all == 0 {
		t.Fatalf("%d records, %v", all, err)
	}
	s.places[0][1] = engine.GroupLocation{Slots: s.places[0][1].Slots}
	s.route(0)
	if got, _, err := n.Count(t.Context(), &record.Query{}); got != all || err != nil {
		t.Errorf("where it was before: %d records, want %d, %v", got, all, err)
	}
	n.engine.SetRoutes(engine.Routes{}) // as after a start
	s.route(0)
	if _, _, err := n.Count(t.Context(), &record.Query{}); n.Kind(err) != wire.KindUnavailable {
		t.Errorf("all of both groups: %v", err)
	}
	mid := int64(0)
	for slots.OwnerOf(slots.Of(1, mid), 2) != 0 {
		mid += 1 << slots.DeviceRangeBits
	}
	one := record.Box{record.CID: {record.At(1)}, record.MID: {record.At(mid)}}
	if _, _, err := n.Count(t.Context(), &record.Query{Box: one}); err != nil {
		t.Errorf("a device of the other group: %v", err)
	}
}
