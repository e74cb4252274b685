package writes

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/wire"
)

// DeleteRange erases or purges a box in all groups, or those that are asked. Each assigns the event
// an acq of its own. A selector chooses devices once, by the descriptions that were acknowledged
// before: there are events that name these, as many as their ranges need.
//
// Returns: the greatest acq. Records with a greater one are visible in any source. After an error
// some groups may have applied the event; a retry also hides records that were put in between.
func (d *Dispatcher) DeleteRange(
	ctx context.Context, asked request.Options, ask *wire.Box, purge bool,
) (acqNs int64, err error) {
	if err := d.rejectOnEdge(); err != nil {
		return 0, err
	}
	if ask.Select != "" {
		return d.deleteSelected(ctx, asked, ask, purge)
	}
	box := ask.Box
	if m := d.opt.Member.Load(); m != nil {
		return d.groups(m).DeleteRange(ctx, box, purge, asked.Groups)
	}
	if purge {
		return d.opt.Store.Purge(ctx, box)
	}
	return d.opt.Store.Erase(ctx, box)
}

// SetRetention sets or removes a policy; see [store.Store.SetRetention]. In a cluster it is in
// force in every group on return; after an error, which names the groups where it may not be, it is
// to be set again.
func (d *Dispatcher) SetRetention(ctx context.Context, r retention.Rule) error {
	if m := d.opt.Member.Load(); m != nil {
		return d.groups(m).SetRetention(ctx, r)
	}
	if err := d.rejectOnEdge(); err != nil {
		return err
	}
	return d.opt.Store.SetRetention(ctx, r)
}

// HoldRetention stops policies, lets them go on, or undoes what they have hidden and is not
// removable; see [store.Store.HoldRetention]. In a cluster it is in force in every group on return.
// With trustClock retentions go on from what the clock of this node reads.
func (d *Dispatcher) HoldRetention(
	ctx context.Context, h retention.Hold, trustClock bool,
) error {
	if trustClock {
		h.TimeNs = d.opt.Clock.State().WallNs
	}
	if m := d.opt.Member.Load(); m != nil {
		return d.groups(m).HoldRetention(ctx, h)
	}
	return d.opt.Store.HoldRetention(ctx, h)
}
