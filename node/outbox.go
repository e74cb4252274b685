package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Outbox makes a node an edge node, which ships its records to another node. Records come by puts
// only, with ascending acqs, and are removed only by the outbox.
type Outbox interface {
	// Put calls store, which stores the batch, unless the outbox is full.
	Put(
		ctx context.Context, b *record.Batch, store func() (store.PutResult, error),
	) (store.PutResult, error)
	// Status returns the state of shipping, for JSON.
	Status() any
	// Problems returns the problems of shipping.
	Problems() []health.Problem
}

// PutAfter stores a batch that follows another one of an edge node; see [store.Store.PutAfter]. In
// a cluster it is like any other put, because each group has its own batches of a writer.
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

// Follows reports whether a batch is the newest one of an edge node; see [store.Store.Follows]. In
// a cluster it always is, as a cluster loses none.
func (n *Node) Follows(writer record.Writer, previous uint64) error {
	if n.closing.Load() {
		return nodeerror.ErrClosing
	}
	if n.member.Load() != nil {
		return nil
	}
	return n.store.Follows(writer, previous)
}

// PutOwn stores a batch without asking the outbox, which calls it.
func (n *Node) PutOwn(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	return n.store.Put(ctx, b, w)
}

// Forget purges ranges of acq, for the outbox.
func (n *Node) Forget(ctx context.Context, acqs record.RangeSet) error {
	var box record.Box
	box[record.Acq] = acqs
	_, err := n.store.Purge(ctx, box)
	return err
}

// checkShips rejects operations on an edge node that would make it differ from what it has shipped.
func (n *Node) checkShips() error {
	if n.opt.Outbox == nil {
		return nil
	}
	return &wire.Error{Kind: wire.KindForbidden, Message: "an edge node takes puts and " +
		"tombstones, stamps them itself, and keeps what upstream does not have yet: stamped " +
		"puts, copies, erases, purges and retentions are for upstream; see sdk/docs/edge.md"}
}
