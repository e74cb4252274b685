package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Diff passes to emit the changes of readings between two acqs; see [store.Store.Diff]. An error of
// emit ends it and is returned.
func (n *Node) Diff(
	ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error,
) (wire.End, error) {
	p, err := n.admit(ctx, &record.Query{Box: ask.Box})
	if err != nil {
		return wire.End{}, err
	}
	defer p.done()
	if err := n.checkMoments(ctx, ask); err != nil {
		return wire.End{}, err
	}
	return n.diff(ctx, ask, emit)
}

// diff is Diff for a request that was admitted and checked.
func (n *Node) diff(
	ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error,
) (wire.End, error) {
	share := n.processors.Begin(askerOf(ask.Box[record.CID]))
	defer share.End()
	ctx = cpushare.With(ctx, share)
	var err error
	var end wire.End
	if only := n.routes.Load().single; only != nil {
		end, err = only.diff(ctx, ask, emit)
	} else {
		last := ask.FromNs // acq below which the answer is final
		if ask.ToNs < record.Acq.Max() {
			last = max(last, ask.ToNs)
		}
		end, err = n.diffOfAll(afterContext(ctx, last-1), ask, emit)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return wire.End{}, err
	}
	return end, nil
}

// clockSkew is how far the clock of a client that asks for now may be ahead.
const clockSkew = 10 * time.Second

// checkMoments rejects acqs of a diff in the future: the answer would be that of another query, and
// change later. The greatest acq as the second one means the horizon.
func (n *Node) checkMoments(ctx context.Context, ask *record.Diff) error {
	horizon, err := n.horizonOfSome(ctx, &ask.Box)
	if err != nil {
		return err
	}
	now := max(horizon, n.clock.NowNs()) // the horizon is behind what is being committed
	for part, ns := range map[string]int64{"from": ask.FromNs, "to": ask.ToNs} {
		if ns > now+int64(clockSkew) && (part == "from" || ns < record.Acq.Max()) {
			return &record.InvalidError{Part: part, Reason: record.OutOfRange, Row: -1,
				Detail: fmt.Sprintf("%s lies in the future, the node's clock shows %s; a diff is "+
					"of what has come", record.FormatNs(ns), record.FormatNs(now))}
		}
	}
	return nil
}

// Versions returns every version of the readings in a box; see [store.Store.Versions].
func (n *Node) Versions(ctx context.Context, box *record.Box) ([]record.Version, wire.End, error) {
	p, err := n.admit(ctx, &record.Query{Box: *box})
	if err != nil {
		return nil, wire.End{}, err
	}
	defer p.done()
	return n.versions(ctx, box)
}

// versions is Versions for a request that was admitted.
func (n *Node) versions(ctx context.Context, box *record.Box) ([]record.Version, wire.End, error) {
	share := n.processors.Begin(askerOf(box[record.CID]))
	defer share.End()
	ctx = cpushare.With(ctx, share)
	if n.routes.Load().single == nil {
		return n.versionsOfAll(ctx, box)
	}
	all, stats, err := n.store.Versions(ctx, box, n.opt.ResultBytes)
	if err != nil {
		return nil, wire.End{}, err
	}
	return all, endOf(stats, stats.Rows), nil
}
