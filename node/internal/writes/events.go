package writes

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// DeleteRange erases or purges a box in all groups that may have devices of it, or in those of only
// unless that is nil.
//
// Returns: the greatest acq. After an error some groups may have applied the event.
func (g Groups) DeleteRange(
	ctx context.Context, box record.Box, purge bool, only []cluster.GroupID,
) (acqNs int64, err error) {
	encode := commands.AppendErase
	if purge {
		encode = commands.AppendPurge
	}
	command, err := encode(nil, box)
	if err != nil {
		return 0, err
	}
	err = g.retrySplits(ctx, func(v *cluster.View) error {
		groups := v.GroupsOf(&box)
		if only != nil {
			groups = slices.DeleteFunc(groups, func(group cluster.GroupID) bool {
				return !slices.Contains(only, group)
			})
		}
		answers := make([]member.Answer, len(groups))
		errs := make([]error, len(groups))
		var wg sync.WaitGroup
		for i, group := range groups {
			wg.Go(func() {
				answers[i], errs[i] = g.member.Propose(ctx, group,
					forSlots(v, group, command), false)
			})
		}
		wg.Wait()
		for _, a := range answers {
			acqNs = max(acqNs, a.AcqNs)
		}
		return errors.Join(errs...)
	})
	return acqNs, err
}

// SetRetention sets or removes a policy in every group. After an error, which names the groups
// where it may not be, it is to be set again.
func (g Groups) SetRetention(ctx context.Context, r retention.Rule) error {
	command, err := commands.AppendRetention(nil, r)
	if err != nil {
		return err
	}
	errs, err := g.eachGroup(ctx, func(v *cluster.View, group cluster.GroupID) error {
		answer, err := g.member.Propose(ctx, group, forSlots(v, group, command), true)
		return removedFrom(answer, err)
	})
	if err != nil {
		return err
	}
	missing := 0
	for i, err := range errs {
		if err != nil && nodeerror.ToWire(err).Kind == wire.KindNotFound {
			errs[i] = nil // of a removal that was cut short, or came twice
			if missing++; missing == len(errs)-1 {
				return err
			}
		}
	}
	return ofGroups(errs)
}

// HoldRetention stops policies, lets them go on, or undoes them in every group.
func (g Groups) HoldRetention(ctx context.Context, h retention.Hold) error {
	command, err := commands.AppendHold(nil, h)
	if err != nil {
		return err
	}
	errs, err := g.eachGroup(ctx, func(v *cluster.View, group cluster.GroupID) error {
		_, err := g.member.Propose(ctx, group, forSlots(v, group, command), true)
		return err
	})
	if err != nil {
		return err
	}
	return ofGroups(errs)
}
