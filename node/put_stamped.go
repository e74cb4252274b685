package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// PutBackdated stores a batch below the horizon; see [store.Store.PutBackdated].
func (n *Node) PutBackdated(
	ctx context.Context, b *record.Batch,
) (res store.PutBackdatedResult, err error) {
	if n.closing.Load() {
		return res, nodeerror.ErrClosing
	}
	if err := tryAcquire(n.puts); err != nil {
		return res, err
	}
	defer func() { <-n.puts }()
	if n.member.Load() != nil {
		return res, rejectStamped("below the horizon, which feeds at other " +
			"nodes rely on")
	}
	if err := n.checkShips(); err != nil {
		return res, err
	}
	return n.store.PutBackdated(ctx, b)
}

// CheckStamped returns the error that PutStamped or PutBackdated would return; see
// [store.Store.CheckStamped].
func (n *Node) CheckStamped(
	ctx context.Context, b *record.Batch, below bool,
) (known int, err error) {
	if n.closing.Load() {
		return 0, nodeerror.ErrClosing
	}
	if n.member.Load() != nil {
		return 0, rejectStamped("under acqs that they bring")
	}
	if err := n.checkShips(); err != nil {
		return 0, err
	}
	return n.store.CheckStamped(ctx, b, below)
}

// PutStamped stores a batch with the acqs that it contains; see [store.Store.PutStamped].
func (n *Node) PutStamped(ctx context.Context, b *record.Batch) (floorNs int64, err error) {
	if n.closing.Load() {
		return 0, nodeerror.ErrClosing
	}
	if err := tryAcquire(n.puts); err != nil {
		return 0, err
	}
	defer func() { <-n.puts }()
	if n.member.Load() != nil {
		return 0, rejectStamped("under acqs that they bring: each group's horizon follows the " +
			"clock, so what is older lies below it at once")
	}
	if err := n.checkShips(); err != nil {
		return 0, err
	}
	return n.store.PutStamped(ctx, b)
}

// ByAcq returns an external sorter of records by acq. The caller closes it.
func (n *Node) ByAcq() *spill.Sorter { return n.spill.ByAcq(0) }

// rejectStamped rejects records that would violate the horizon of a group.
func rejectStamped(what string) error {
	return &wire.Error{Kind: wire.KindForbidden, Message: "a cluster takes no records " + what +
		"; put them, so that they get new acqs, or make an empty cluster a copy by pentad sync"}
}
