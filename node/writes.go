package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Put stores a batch; see [store.Store.Put].
func (n *Node) Put(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	return n.writes.Put(ctx, b, w)
}

// PutUnlessNewer stores descriptions that were made from older ones; see
// [store.Store.PutUnlessNewer]. In a cluster each group stores its part of the batch or refuses it.
func (n *Node) PutUnlessNewer(
	ctx context.Context, b *record.Batch, w store.WriterSeq, newestNs int64,
) (store.PutResult, error) {
	return n.writes.PutUnlessNewer(ctx, b, w, newestNs)
}

// PutAfter stores a batch that follows another one of an edge node; see [store.Store.PutAfter]. In
// a cluster it is like any other put, because each group has its own batches of a writer.
func (n *Node) PutAfter(
	ctx context.Context, b *record.Batch, w store.WriterSeq, previous uint64,
) (store.PutResult, error) {
	return n.writes.PutAfter(ctx, b, w, previous)
}

// Follows reports whether a batch is the newest one of an edge node; see [store.Store.Follows]. In
// a cluster it always is, as a cluster loses none.
func (n *Node) Follows(writer record.Writer, previous uint64) error {
	return n.writes.Follows(writer, previous)
}

// PutBackdated stores a batch below the horizon; see [store.Store.PutBackdated].
func (n *Node) PutBackdated(
	ctx context.Context, b *record.Batch,
) (store.PutBackdatedResult, error) {
	return n.writes.PutBackdated(ctx, b)
}

// CheckStamped returns the error that PutStamped or PutBackdated would return; see
// [store.Store.CheckStamped].
func (n *Node) CheckStamped(
	ctx context.Context, b *record.Batch, below bool,
) (known int, err error) {
	return n.writes.CheckStamped(ctx, b, below)
}

// PutStamped stores a batch with the acqs that it contains; see [store.Store.PutStamped].
func (n *Node) PutStamped(ctx context.Context, b *record.Batch) (floorNs int64, err error) {
	return n.writes.PutStamped(ctx, b)
}

// PutRange adds a range of another node's records to a mirror; see [store.Store.PutRange].
func (n *Node) PutRange(ctx context.Context, r *mirror.Range) (horizonNs int64, err error) {
	return n.writes.PutRange(ctx, 0, r)
}

// PromoteCopy makes a mirror an independent node; see [store.Store.PromoteCopy].
func (n *Node) PromoteCopy(ctx context.Context) error { return n.writes.PromoteCopy(ctx) }

// Erase hides the records of a box; see [store.Store.Erase]. Without moids the box is of all that
// are not reserved, as in queries.
func (n *Node) Erase(ctx context.Context, box record.Box) (acqNs int64, err error) {
	if err := box.NormalizeAsked(); err != nil {
		return 0, err
	}
	return n.writes.DeleteRange(ctx, request.Options{}, &wire.Box{Box: box}, false)
}

// EraseSelected is Erase of the devices of one tenant that a selector chooses now, in the language
// of [registry.ParseSelector]. Later changes of descriptions do not change what it hides.
//
// Errors: also *record.InvalidError if the selector chooses no device.
func (n *Node) EraseSelected(
	ctx context.Context, box record.Box, selector string,
) (acqNs int64, err error) {
	return n.deleteSelected(ctx, box, selector, false)
}

// PurgeSelected is to Purge what EraseSelected is to Erase.
func (n *Node) PurgeSelected(
	ctx context.Context, box record.Box, selector string,
) (acqNs int64, err error) {
	return n.deleteSelected(ctx, box, selector, true)
}

func (n *Node) deleteSelected(
	ctx context.Context, box record.Box, selector string, purge bool,
) (acqNs int64, err error) {
	ask := &wire.Box{Box: box, Everything: true, Select: selector}
	if err := ask.Check(); err != nil {
		return 0, err
	}
	return n.writes.DeleteRange(ctx, request.Options{}, ask, purge)
}

// Purge removes the records of a box, as Erase chooses them; see [store.Store.Purge].
func (n *Node) Purge(ctx context.Context, box record.Box) (acqNs int64, err error) {
	if err := box.NormalizeAsked(); err != nil {
		return 0, err
	}
	return n.writes.DeleteRange(ctx, request.Options{}, &wire.Box{Box: box}, true)
}

// SetRetention sets or removes a policy; see [store.Store.SetRetention]. In a cluster it is in
// force in every group on return; after an error, which names the groups where it may not be, it is
// to be set again.
func (n *Node) SetRetention(ctx context.Context, r retention.Rule) error {
	return n.writes.SetRetention(ctx, r)
}

// HoldRetention stops policies, lets them go on, or undoes what they have hidden and is not
// removable; see [store.Store.HoldRetention]. In a cluster it is in force in every group on return.
// With trustClock retentions go on from what the clock of this node reads.
func (n *Node) HoldRetention(ctx context.Context, h retention.Hold, trustClock bool) error {
	return n.writes.HoldRetention(ctx, h, trustClock)
}
