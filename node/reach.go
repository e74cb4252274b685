package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
)

// reach lets a query of a moment wait until its horizon has passed that, as what comes below it
// would be missing from the answer, and refuses moments that are still to come.
func (n *Node) reach(ctx context.Context, q *record.Query) (context.Context, error) {
	if q.View != record.ViewAsOf || q.AsOfAcqNs <= 0 {
		return ctx, nil
	}
	last := q.AsOfAcqNs - 1 // of the acqs that belong to the answer
	if err := n.checkAsOf(ctx, q); err != nil {
		return ctx, err
	}
	if only := n.layout.Load().only; only != nil {
		// The log of a node may fail, and its horizon stand still: then nothing comes any more.
		soon, cancel := context.WithTimeout(ctx, clockSkew)
		defer cancel()
		err := n.nearby(only, last).wait(soon)
		if errors.Is(err, context.DeadlineExceeded) {
			err = ctx.Err()
		}
		return ctx, err
	}
	if scopeOf(ctx).groups == nil && n.isCopy() {
		horizon, err := n.horizonOf(ctx, &q.Box)
		if err != nil {
			return ctx, err
		}
		last = min(last, horizon-1) // it moves when a range comes, and not with the clock
	}
	return passing(ctx, last), nil
}

// isCopy reports whether the groups here are copies, as those of other nodes then are.
func (n *Node) isCopy() bool {
	for _, p := range n.layout.Load().groups {
		if p.here != nil {
			return p.here.store.IsCopy()
		}
	}
	return false
}

// passing lets the sources of a question wait until their horizons have passed an acq.
func passing(ctx context.Context, acqNs int64) context.Context {
	asked := scopeOf(ctx)
	if asked.groups != nil || acqNs <= 0 {
		return ctx // who asks has said so
	}
	asked.after = []int64{max(asked.afterOf(0), acqNs)}
	return withScope(ctx, asked)
}

// checkAsOf refuses a moment that is still to come: the answer would be of today, and change.
func (n *Node) checkAsOf(ctx context.Context, q *record.Query) error {
	now := n.clock.NowNs()
	if q.View != record.ViewAsOf || q.AsOfAcqNs <= now+int64(clockSkew) {
		return nil
	}
	horizon, err := n.horizonOfSome(ctx, &q.Box) // the clock may have been set back
	if now = max(horizon, now); err != nil || q.AsOfAcqNs <= now+int64(clockSkew) {
		return err
	}
	return &record.InvalidError{Part: "asof", Reason: record.OutOfRange, Row: -1,
		Detail: fmt.Sprintf("%s lies in the future, the node's clock shows %s; ask for the latest "+
			"view", record.FormatNs(q.AsOfAcqNs), record.FormatNs(now))}
}
