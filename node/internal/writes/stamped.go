package writes

import (
	"context"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// PutBackdated stores a batch below the horizon; see [store.Store.PutBackdated].
func (d *Dispatcher) PutBackdated(
	ctx context.Context, b *record.Batch,
) (res store.PutBackdatedResult, err error) {
	if err := d.begin(); err != nil {
		return res, err
	}
	defer d.puts.Release()
	if d.opt.Member.Load() != nil {
		return res, rejectStamped("below the horizon, which feeds at other " +
			"nodes rely on")
	}
	if err := d.rejectOnEdge(); err != nil {
		return res, err
	}
	return d.opt.Store.PutBackdated(ctx, b)
}

// CheckStamped returns the error that PutStamped or PutBackdated would return; see
// [store.Store.CheckStamped].
func (d *Dispatcher) CheckStamped(
	ctx context.Context, b *record.Batch, below bool,
) (known int, err error) {
	if err := d.checkOpen(); err != nil {
		return 0, err
	}
	if d.opt.Member.Load() != nil {
		return 0, rejectStamped("under acqs that they bring")
	}
	if err := d.rejectOnEdge(); err != nil {
		return 0, err
	}
	return d.opt.Store.CheckStamped(ctx, b, below)
}

// PutStamped stores a batch with the acqs that it contains; see [store.Store.PutStamped].
func (d *Dispatcher) PutStamped(ctx context.Context, b *record.Batch) (floorNs int64, err error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	defer d.puts.Release()
	if d.opt.Member.Load() != nil {
		return 0, rejectStamped("under acqs that they bring: each group's horizon follows the " +
			"clock, so what is older lies below it at once")
	}
	if err := d.rejectOnEdge(); err != nil {
		return 0, err
	}
	return d.opt.Store.PutStamped(ctx, b)
}

// rejectStamped rejects records that would violate the horizon of a group.
func rejectStamped(what string) error {
	return &wire.Error{Kind: wire.KindForbidden, Message: "a cluster takes no records " + what +
		"; put them, so that they get new acqs, or make an empty cluster a copy by pentad sync"}
}
