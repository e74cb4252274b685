package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Outbox makes a node one that ships what it takes to others. Records come to it by puts alone,
// which give them acqs above all that were given, and go only when the outbox lets them.
type Outbox interface {
	// Put calls store, which stores the batch, unless there is no room for it.
	Put(
		ctx context.Context, b *record.Batch, store func() (store.PutResult, error),
	) (store.PutResult, error)
	// Status is how far the shipping is, in a form that JSON has.
	Status() any
	// Problems is what is wrong with the shipping.
	Problems() []health.Problem
}

// PutAfter stores a batch that follows another one of an edge; see [store.Store.PutAfter]. Groups
// of a cluster, of which each has its own batches of a writer, take it as they take any other.
func (n *Node) PutAfter(
	ctx context.Context, b *record.Batch, w store.WriterSeq, previous uint64,
) (store.PutResult, error) {
	return n.put(ctx, b, w,
		func(
			ctx context.Context, b *record.Batch, w store.WriterSeq,
		) (store.PutResult, error) {
			return n.store.PutAfter(ctx, b, w, previous)
		})
}

// Follows reports whether a batch is the newest one of an edge; see [store.Store.Follows]. A
// cluster loses none, and says yes.
func (n *Node) Follows(writer [16]byte, previous uint64) error {
	if n.closing.Load() {
		return errClosing
	}
	if n.member.Load() != nil {
		return nil
	}
	return n.store.Follows(writer, previous)
}

// PutOwn stores a batch past the outbox, for which it is.
func (n *Node) PutOwn(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	return n.store.Put(ctx, b, w)
}

// Forget removes what came in ranges of acq, for the outbox.
func (n *Node) Forget(ctx context.Context, acqs record.RangeSet) error {
	var box record.Box
	box[record.Acq] = acqs
	_, err := n.store.Purge(ctx, box)
	return err
}

// checkShips refuses what would part the node from what it has shipped.
func (n *Node) checkShips() error {
	if n.opt.Outbox == nil {
		return nil
	}
	return &wire.Error{Kind: wire.KindForbidden, Message: "an edge node takes puts and " +
		"tombstones, stamps them itself, and keeps what upstream does not have yet: stamped " +
		"puts, copies, erases, purges and retentions are for upstream; see sdk/docs/edge.md"}
}
