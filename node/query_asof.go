package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
)

// waitForAsOf makes an as-of query wait until the horizon has passed its acq, below which records
// could still be added.
func (n *Node) waitForAsOf(ctx context.Context, q *record.Query) (context.Context, error) {
	if q.View != record.ViewAsOf || q.AsOfAcqNs <= 0 {
		return ctx, nil
	}
	last := q.AsOfAcqNs - 1 // acq of the answer
	if only := n.routes.Load().single; only != nil {
		// If the log has failed, the horizon does not move and nothing is added any more.
		soon, cancel := context.WithTimeout(ctx, clockSkew)
		defer cancel()
		err := n.afterAcq(only, last).wait(soon)
		if errors.Is(err, context.DeadlineExceeded) {
			err = ctx.Err()
		}
		return ctx, err
	}
	if optionsOf(ctx).groups == nil && n.isCopy() {
		horizon, err := n.horizonOf(ctx, &q.Box)
		if err != nil {
			return ctx, err
		}
		last = min(last, horizon-1) // a mirror's horizon moves with ranges, not with the clock
	}
	return afterContext(ctx, last), nil
}

// isCopy reports whether the groups here are mirrors; then those of other nodes are, too.
func (n *Node) isCopy() bool {
	for _, p := range n.routes.Load().groups {
		if p.local != nil {
			return p.local.store.IsCopy()
		}
	}
	return false
}

// afterContext makes the sources of a query wait until their horizons have passed an acq.
func afterContext(ctx context.Context, acqNs int64) context.Context {
	asked := optionsOf(ctx)
	if asked.groups != nil || acqNs <= 0 {
		return ctx // the other node has set its own
	}
	asked.after = []int64{max(asked.afterOf(0), acqNs)}
	return withOptions(ctx, asked)
}

// checkAsOf rejects an as-of acq in the future: the answer would be that of now, and change later.
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
