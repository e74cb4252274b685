package engine

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// HorizonPast returns the horizon of a box, nil for all records; the acqs of the box do not matter.
// It waits until the horizon is above afterNs, e.g. the acq of a put; 0 does not wait.
//
// Errors: of the sources, and of ctx, because the horizon of a group without a leader does not
// move.
func (e *Engine) HorizonPast(
	ctx context.Context, options request.Options, box *record.Box, afterNs int64,
) (horizonNs int64, err error) {
	var withoutAcq record.Box
	if box != nil {
		withoutAcq = *box
		withoutAcq[record.Acq] = nil
	}
	if only := e.routes.Load().single; only != nil {
		if err := e.afterAcq(only, max(afterNs, 0)).wait(ctx); err != nil {
			return 0, err
		}
		return only.store.ExtendHorizon(ctx)
	}
	return e.Horizon(ctx, options.Passing(afterNs), &withoutAcq)
}

// QueryBelow is Query for the records with an acq below belowNs, which was a horizon of the box. It
// finds all of them, because it waits for replicas whose horizon is lower.
func (e *Engine) QueryBelow(
	ctx context.Context, options request.Options, q *record.Query, belowNs int64,
	emit func(b *record.Batch) error,
) (wire.End, error) {
	below := *q
	below.Box[record.Acq] = nil
	all := q.Box[record.Acq]
	if len(all) == 0 {
		all = record.RangeSet{{From: record.Acq.Min(), To: record.Acq.Max()}}
	}
	for _, r := range all {
		if r.To = min(r.To, belowNs); r.From < r.To {
			below.Box[record.Acq] = append(below.Box[record.Acq], r)
		}
	}
	if len(below.Box[record.Acq]) == 0 {
		return wire.End{Complete: true, HorizonNs: belowNs}, nil
	}
	if err := below.Normalize(); err != nil {
		return wire.End{}, err
	}
	return e.Query(ctx, options.Passing(belowNs-1), &below, emit)
}
