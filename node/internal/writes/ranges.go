package writes

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/mirror"
)

// PutRange adds a range of another node's records to a mirror, in a cluster to only one group
// unless that is 0; see [store.Store.PutRange].
func (d *Dispatcher) PutRange(
	ctx context.Context, only cluster.GroupID, r *mirror.Range,
) (horizonNs int64, err error) {
	if err := d.begin(); err != nil {
		return 0, err
	}
	defer d.puts.Release()
	if m := d.opt.Member.Load(); m != nil {
		if err := d.checkCopies(ctx, m, only, r); err != nil {
			return 0, err
		}
		return d.groups(m).PutRange(ctx, r, only)
	}
	if err := d.rejectOnEdge(); err != nil {
		return 0, err
	}
	return d.opt.Store.PutRange(ctx, r)
}

// checkCopies rejects a first range unless all groups can become copies.
func (d *Dispatcher) checkCopies(
	ctx context.Context, m *member.Member, only cluster.GroupID, r *mirror.Range,
) error {
	v := m.View()
	if v.DataGroups() == 0 {
		return nodeerror.ErrNoView
	}
	if r.FromNs != 0 {
		return nil
	}
	for group := range v.Data() {
		if v.Splitting(group) {
			return fmt.Errorf("group %d: %w", group, store.ErrOtherSlots)
		}
	}
	st, _, err := d.opt.Engine.State(ctx, request.Options{OnlyGroup: only})
	if err == nil && st.Of == "" && !st.Empty {
		err = fmt.Errorf("%w: the cluster holds records or events of its own; copy into a "+
			"new one, or give the records new acqs", store.ErrNotCopied)
	}
	return err
}

// PromoteCopy makes a mirror an independent node; see [store.Store.PromoteCopy].
func (d *Dispatcher) PromoteCopy(ctx context.Context) error {
	if m := d.opt.Member.Load(); m != nil {
		return d.groups(m).PromoteCopy(ctx)
	}
	return d.opt.Store.PromoteCopy(ctx)
}
