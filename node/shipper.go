package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// Shipper makes a node an edge node, which ships its records to another node: every put goes
// through it. Records come by puts only, with ascending acqs, and only the shipper removes them.
type Shipper interface {
	// Put calls store, which stores the batch, unless too much waits to be shipped.
	Put(
		ctx context.Context, b *record.Batch, store func() (store.PutResult, error),
	) (store.PutResult, error)
	// Status returns the state of shipping, for JSON.
	Status() any
	// Problems returns the problems of shipping.
	Problems() []health.Problem
}

// PutOwn stores a batch without the shipper, which calls it.
func (n *Node) PutOwn(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	return n.store.Put(ctx, b, w)
}

// Forget purges ranges of acq, for the shipper.
func (n *Node) Forget(ctx context.Context, acqs record.RangeSet) error {
	var box record.Box
	box[record.Acq] = acqs
	_, err := n.store.Purge(ctx, box)
	return err
}

// ByAcq returns an external sorter of records by acq. The caller closes it.
func (n *Node) ByAcq() *spill.Sorter { return n.spill.ByAcq(0) }
