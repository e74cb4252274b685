package node

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// hide implements source.
func (n *localSource) hide(
	ctx context.Context, box record.Box, purge bool,
) (acqNs int64, err error) {
	if purge {
		return n.store.Purge(ctx, box)
	}
	return n.store.Erase(ctx, box)
}

// hide implements source.
func (r *remoteSource) hide(
	ctx context.Context, box record.Box, purge bool,
) (acqNs int64, err error) {
	ask := r.client().Erase
	if purge {
		ask = r.client().Purge
	}
	acqNs, err = ask(ctx, &wire.Box{Box: box, Everything: true})
	return acqNs, r.wireError(ctx, err)
}

// hide erases or purges a box in all sources, each of which assigns the event an acq of its own.
//
// Returns: the greatest acq. Records with a greater one are visible in any source. After an error
// some sources may have applied the event; a retry also hides records that were put in between.
func (n *Node) hide(ctx context.Context, box record.Box, purge bool) (acqNs int64, err error) {
	if err := n.checkShips(); err != nil {
		return 0, err
	}
	if only := n.routes.Load().single; only != nil {
		return only.hide(ctx, box, purge)
	}
	if m := n.member.Load(); m != nil {
		return n.hideInGroups(ctx, m, box, purge)
	}
	a, err := ask(whole(ctx), n, askChange, &box, func(ctx context.Context, s source) (
		int64, wire.End, error,
	) {
		acqNs, err := s.hide(ctx, box, purge)
		return acqNs, wire.End{}, err
	})
	for _, ns := range a.answers {
		acqNs = max(acqNs, ns)
	}
	return acqNs, err
}

// Erase hides the records of a box; see [store.Store.Erase].
func (n *Node) Erase(ctx context.Context, box record.Box) (acqNs int64, err error) {
	return n.hide(ctx, box, false)
}

// Purge removes the records of a box; see [store.Store.Purge].
func (n *Node) Purge(ctx context.Context, box record.Box) (acqNs int64, err error) {
	return n.hide(ctx, box, true)
}

// hideInGroups erases or purges a box in all groups that may have devices of it.
func (n *Node) hideInGroups(
	ctx context.Context, m *member.Member, box record.Box, purge bool,
) (acqNs int64, err error) {
	encode := commands.AppendErase
	if purge {
		encode = commands.AppendPurge
	}
	command, err := encode(nil, box)
	if err != nil {
		return 0, err
	}
	err = n.retrySplits(ctx, m, func(v *cluster.View) error {
		groups := v.GroupsOf(&box)
		if asked := optionsOf(ctx).groups; asked != nil {
			groups = slices.DeleteFunc(groups, func(group cluster.GroupID) bool {
				return !slices.Contains(asked, group)
			})
		}
		answers := make([]member.Answer, len(groups))
		errs := make([]error, len(groups))
		var wg sync.WaitGroup
		for i, group := range groups {
			wg.Go(func() {
				answers[i], errs[i] = m.Do(ctx, group, guarded(v, group, command), false)
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
