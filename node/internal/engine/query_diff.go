package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Diff passes to emit the changes of readings between two acqs; see [store.Store.Diff]. An error of
// emit ends it and is returned.
func (e *Engine) Diff(
	ctx context.Context, options request.Options, ask *record.Diff,
	emit func(d *record.Differences) error,
) (wire.End, error) {
	p, err := e.admit(ctx, options, &record.Query{Box: ask.Box, Select: ask.Select})
	if err != nil {
		return wire.End{}, err
	}
	defer p.Done()
	if err := e.CheckMoments(ctx, options, ask); err != nil {
		return wire.End{}, err
	}
	return p.Diff(ctx, ask, emit)
}

// Diff is [Engine.Diff] for a request that was admitted, after CheckMoments.
func (a *Admitted) Diff(
	ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error,
) (wire.End, error) {
	e := a.engine
	ctx, share := e.processors.Enter(ctx, schedulingKeyOf(ask.Box[record.CID]))
	defer share.End()
	var err error
	var end wire.End
	if only := e.routes.Load().single; only != nil {
		end, err = only.diff(ctx, ask, emit)
	} else {
		last := ask.FromNs // acq below which the answer is final
		if ask.ToNs < record.Acq.Max() {
			last = max(last, ask.ToNs)
		}
		end, err = e.diffOfAll(ctx, a.options.Passing(last-1), ask, emit)
	}
	if err != nil && !errors.Is(err, ErrLimitReached) {
		return wire.End{}, err
	}
	return end, nil
}

// clockSkew is how far the clock of a client that asks for now may be ahead, and how long an as-of
// query waits for its acq.
const clockSkew = 10 * time.Second

// CheckMoments rejects acqs of a diff in the future: the answer would be that of another query, and
// change later. The greatest acq as the second one means the horizon.
func (e *Engine) CheckMoments(
	ctx context.Context, options request.Options, ask *record.Diff,
) error {
	horizon, err := e.horizonOfSome(ctx, options, &ask.Box)
	if err != nil {
		return err
	}
	now := max(horizon, e.clock.NowNs()) // the horizon is behind what is being committed
	for part, ns := range map[string]int64{"from": ask.FromNs, "to": ask.ToNs} {
		if ns > now+int64(clockSkew) && (part == "from" || ns < record.Acq.Max()) {
			return &record.InvalidError{Part: part, Reason: record.OutOfRange, Row: -1,
				Detail: fmt.Sprintf("%s is in the future, the node's clock shows %s; a diff is "+
					"of what has come", record.FormatNs(ns), record.FormatNs(now))}
		}
	}
	return nil
}

// Versions returns every version of the readings in a box; see [store.Store.VersionsSelected].
func (e *Engine) Versions(
	ctx context.Context, options request.Options, ask *wire.Box,
) ([]record.Version, wire.End, error) {
	p, err := e.admit(ctx, options, &record.Query{Box: ask.Box, Select: ask.Select})
	if err != nil {
		return nil, wire.End{}, err
	}
	defer p.Done()
	return p.Versions(ctx, ask)
}

// Versions is [Engine.Versions] for a request that was admitted.
func (a *Admitted) Versions(
	ctx context.Context, ask *wire.Box,
) ([]record.Version, wire.End, error) {
	e := a.engine
	ctx, share := e.processors.Enter(ctx, schedulingKeyOf(ask.Box[record.CID]))
	defer share.End()
	if e.routes.Load().single == nil {
		return e.versionsOfAll(ctx, a.options, ask)
	}
	all, stats, err := e.store.VersionsSelected(ctx, &ask.Box, ask.Select, e.Limits.ResultBytes)
	if err != nil {
		return nil, wire.End{}, err
	}
	return all, endOf(stats, stats.Rows), nil
}
