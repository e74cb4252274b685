package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// Policy is a retention and the groups of a cluster that have it, by their numbers; nil: all.
type Policy = engine.Policy

// Erase hides the records of a box; see [store.Store.Erase].
func (n *Node) Erase(ctx context.Context, box record.Box) (acqNs int64, err error) {
	return n.deleteRange(ctx, request.Options{}, box, false)
}

// Purge removes the records of a box; see [store.Store.Purge].
func (n *Node) Purge(ctx context.Context, box record.Box) (acqNs int64, err error) {
	return n.deleteRange(ctx, request.Options{}, box, true)
}

// deleteRange erases or purges a box in all groups. Each assigns the event an acq of its own.
//
// Returns: the greatest acq. Records with a greater one are visible in any source. After an error
// some groups may have applied the event; a retry also hides records that were put in between.
func (n *Node) deleteRange(
	ctx context.Context, asked request.Options, box record.Box, purge bool,
) (acqNs int64, err error) {
	if err := n.checkShips(); err != nil {
		return 0, err
	}
	if m := n.member.Load(); m != nil {
		return n.groups(m).Hide(ctx, box, purge, asked.Groups)
	}
	return n.engine.DeleteRange(ctx, asked, box, purge)
}

// Events lists erases, purges and steps of retentions, oldest first; see [store.Store.Events]. In a
// cluster each group has its own of them, of its slots and with an acq of its own.
func (n *Node) Events(ctx context.Context) ([]event.Event, error) {
	return n.engine.Events(ctx, request.Options{})
}

// Retention lists the policies of all groups that are asked; see [store.Store.Retention].
func (n *Node) Retention(ctx context.Context) ([]Policy, error) {
	return n.engine.Retention(ctx, request.Options{})
}

// Expired counts the records that a policy would hide now; see [retention.Rule.Expired].
func (n *Node) Expired(ctx context.Context, r retention.Rule) (uint64, error) {
	return n.engine.Expired(ctx, r)
}

// SetRetention sets or removes a policy; see [store.Store.SetRetention]. In a cluster it is in
// force in every group on return; after an error, which names the groups where it may not be, it is
// to be set again.
func (n *Node) SetRetention(ctx context.Context, r retention.Rule) error {
	if m := n.member.Load(); m != nil {
		return n.groups(m).SetRetention(ctx, r)
	}
	if err := n.checkShips(); err != nil {
		return err
	}
	return n.store.SetRetention(ctx, r)
}

// HoldRetention stops policies, lets them go on, or undoes what they have hidden and is not
// removable; see [store.Store.HoldRetention]. In a cluster it is in force in every group on return.
// With trustClock retentions go on from what the clock of this node reads.
func (n *Node) HoldRetention(ctx context.Context, h retention.Hold, trustClock bool) error {
	if trustClock {
		h.TimeNs = n.clock.State().WallNs
	}
	if m := n.member.Load(); m != nil {
		return n.groups(m).HoldRetention(ctx, h)
	}
	return n.store.HoldRetention(ctx, h)
}
