package node

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Verify verifies everything that the node stores; see [store.Store.Verify]. In a cluster it
// verifies the node's replicas, and compares them with those of other nodes. It ends when the node
// is closed.
func (n *Node) Verify(ctx context.Context, opt check.Options) (api.CheckReport, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.open, func() { cancel(nodeerror.ErrClosing) })()
	if err := tryAcquire(n.verifying); err != nil {
		return api.CheckReport{}, fmt.Errorf("verify: %w: one runs already", err)
	}
	defer func() { <-n.verifying }()
	var report api.CheckReport
	var err error
	if m := n.member.Load(); m != nil {
		report, err = n.engine.VerifyGroups(ctx, m.Stores(), opt)
	} else {
		report, err = n.store.Verify(ctx, opt)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return report, err
}

// VerifySegment is Verify of one segment of a group's replica, group 0 for a node that is in no
// cluster. A backup that finds damage in a copy of the segment makes the node notice it, too.
func (n *Node) VerifySegment(
	ctx context.Context, group cluster.GroupID, id uint64, opt check.Options,
) (api.CheckReport, error) {
	s := n.store
	if m := n.member.Load(); m != nil || group != 0 {
		s = nil
		if m != nil {
			s = m.Stores()[group]
		}
		if s == nil {
			return api.CheckReport{}, &wire.Error{Kind: wire.KindNotFound,
				Message: fmt.Sprintf("no replica of group %d is on this node", group)}
		}
	}
	return s.VerifySegment(ctx, id, opt)
}
