package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
)

// waitForAsOf makes an as-of query wait until the horizon has passed its acq, below which records
// could still be added.
func (e *Engine) waitForAsOf(ctx context.Context, q *prepared) (*prepared, error) {
	if q.View != record.ViewAsOf || q.AsOfAcqNs <= 0 {
		return q, nil
	}
	last := q.AsOfAcqNs - 1 // acq of the answer
	if only := e.routes.Load().single; only != nil {
		// If the log has failed, the horizon does not move and nothing is added any more.
		soon, cancel := context.WithTimeout(ctx, clockSkew)
		defer cancel()
		err := e.afterAcq(only, last).wait(soon)
		if errors.Is(err, context.DeadlineExceeded) {
			err = ctx.Err()
		}
		return q, err
	}
	if q.options.Groups == nil && e.isCopy() {
		horizon, err := e.Horizon(ctx, q.options, &q.Box)
		if err != nil {
			return q, err
		}
		last = min(last, horizon-1) // a mirror's horizon moves with ranges, not with the clock
	}
	later := *q
	later.options = q.options.Passing(last)
	return &later, nil
}

// isCopy reports whether the groups here are mirrors; then those of other nodes are, too.
func (e *Engine) isCopy() bool {
	for _, route := range e.routes.Load().groups {
		if route.local != nil {
			return route.local.store.IsCopy()
		}
	}
	return false
}

// checkAsOf rejects an as-of acq in the future: the answer would be that of now, and change later.
func (e *Engine) checkAsOf(
	ctx context.Context, options request.Options, q *record.Query,
) error {
	if q.View != record.ViewAsOf {
		return nil
	}
	now := e.clock.NowNs()
	if q.AsOfAcqNs <= now+int64(clockSkew) {
		return nil
	}
	horizon, err := e.horizonOfSome(ctx, options, &q.Box) // the clock may have been set back
	if now = max(horizon, now); err != nil || q.AsOfAcqNs <= now+int64(clockSkew) {
		return err
	}
	return &record.InvalidError{Part: "asof", Reason: record.OutOfRange, Row: -1,
		Detail: fmt.Sprintf("%s is in the future, the node's clock shows %s; ask for the latest "+
			"view", record.FormatNs(q.AsOfAcqNs), record.FormatNs(now))}
}
