package node

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

// PutRange adds a range of another node's records to a mirror; see [store.Store.PutRange].
func (n *Node) PutRange(ctx context.Context, r *mirror.Range) (horizonNs int64, err error) {
	return n.putRange(ctx, 0, r)
}

// putRange is PutRange into only one group of a cluster, unless that is 0.
func (n *Node) putRange(
	ctx context.Context, only cluster.GroupID, r *mirror.Range,
) (horizonNs int64, err error) {
	if n.closing.Load() {
		return 0, nodeerror.ErrClosing
	}
	if err := tryAcquire(n.puts); err != nil {
		return 0, err
	}
	defer func() { <-n.puts }()
	if m := n.member.Load(); m != nil {
		if err := n.checkCopies(ctx, m, only, r); err != nil {
			return 0, err
		}
		return n.groups(m).PutRange(ctx, r, only)
	}
	if err := n.checkShips(); err != nil {
		return 0, err
	}
	return n.store.PutRange(ctx, r)
}

// checkCopies rejects a first range unless all groups can become copies.
func (n *Node) checkCopies(
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
	st, _, err := n.engine.State(ctx, request.Options{OnlyGroup: only})
	if err == nil && st.Of == "" && !st.Empty {
		err = fmt.Errorf("%w: the cluster holds records or events of its own; copy into a "+
			"new one, or give the records new acqs", store.ErrNotCopied)
	}
	return err
}

// PromoteCopy makes a mirror an independent node; see [store.Store.PromoteCopy].
func (n *Node) PromoteCopy(ctx context.Context) error {
	if m := n.member.Load(); m != nil {
		return n.groups(m).PromoteCopy(ctx)
	}
	return n.store.PromoteCopy(ctx)
}
