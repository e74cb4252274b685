package node

import (
	"context"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// noted is what a node would tell another one.
type noted struct {
	feed  uint64
	acqNs int64
}

type notes chan noted

func (n notes) PassFeed(_ cluster.NodeID, feed uint64, acqNs int64) { n <- noted{feed, acqNs} }

func (notes) ReadIndex(context.Context, cluster.GroupID) error { return nil }
func (notes) HasNoLeader(cluster.GroupID) bool                 { return false }
func (notes) SessionAcq(cluster.GroupID) int64                 { return 0 }
func (notes) RaiseSessionAcq(cluster.GroupID, int64)           {}
func (notes) CloseSoon(cluster.GroupID, int64)                 {}

// TestAFeedIsKnownByItsNumber: the number that one node draws is that by which the other one knows
// the feed, from its beginning to its end.
func TestAFeedIsKnownByItsNumber(t *testing.T) {
	s := openSpread(t, 2, 2)
	near, said := s.near().engine, make(notes, 8)
	near.Join(said)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, ended := make(chan struct{}, 1000), make(chan error, 1)
	const number = 9
	go func() {
		_, err := near.Changes(ctx, request.Options{FeedID: number}, &record.Query{}, 0, true,
			time.Second, func(*store.Slice) error {
				poke(begun)
				return nil
			})
		ended <- err
	}()
	<-begun
	const acq = 1 << 62
	near.Merged.Pass(number, acq)
	note := <-said
	there := &s.nodes[1].engine.Merged
	there.Pass(note.feed, note.acqNs)
	if d := there.Of(note.feed); d == nil || d.Wanted() != acq {
		t.Errorf("feed %d is %v", note.feed, d)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a feed ended without an error")
	}
}
