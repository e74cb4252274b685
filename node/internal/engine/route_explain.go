package engine

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// explain implements source.
func (l *localSource) explain(
	ctx context.Context, q *prepared, of api.ExplainOf,
) ([]api.SourceExplanation, error) {
	x, err := l.explainOf(ctx, q, of)
	return []api.SourceExplanation{{Source: l.String(), Explanation: x}}, err
}

// explain implements source.
func (r *remoteSource) explain(
	ctx context.Context, q *prepared, of api.ExplainOf,
) ([]api.SourceExplanation, error) {
	x, err := r.client().ExplainOf(ctx, q.Query, of)
	if err != nil {
		return nil, r.wireError(ctx, err)
	}
	for i := range x.Sources {
		x.Sources[i].Source = "node " + r.peer.name + ": " + x.Sources[i].Source
	}
	if len(x.Sources) == 0 {
		x.Ignored = nil
		x.Sources = []api.SourceExplanation{{Source: "node " + r.peer.name, Explanation: x}}
	}
	return x.Sources, nil
}

// explainAll adds the explanations of all sources. No source may be omitted, as the sums would be
// wrong.
func (e *Engine) explainAll(
	ctx context.Context, q *prepared, of api.ExplainOf,
) (api.Explanation, error) {
	a, err := askSources(ctx, e, q.options.CompleteOnly(), askPlan, &q.Box, func(
		ctx context.Context, s source,
	) ([]api.SourceExplanation, wire.End, error) {
		x, err := s.explain(ctx, q, of)
		return x, wire.End{}, err
	})
	if err != nil {
		return api.Explanation{}, err
	}
	var out api.Explanation
	out.Segments = []api.SegmentPlan{}
	for _, some := range a.answers {
		for _, x := range some {
			if len(out.Sources) == 0 {
				out.HorizonNs = x.HorizonNs
			}
			out.Sources = append(out.Sources, x)
			addExplanation(&out, &x.Explanation)
		}
	}
	out.TookNs = a.end().TookNs
	return out, nil
}

// addExplanation adds the numbers of a source.
func addExplanation(x, o *api.Explanation) {
	x.HorizonNs = min(x.HorizonNs, o.HorizonNs)
	x.Shards += o.Shards
	x.ShardsAsked += o.ShardsAsked
	x.Heads += o.Heads
	x.HeadRows += o.HeadRows
	x.HeadFound += o.HeadFound
	x.Blocks += o.Blocks
	x.DroppedByBounds += o.DroppedByBounds
	x.DroppedByLists += o.DroppedByLists
	x.DroppedByZones.Add(o.DroppedByZones)
	x.Candidates += o.Candidates
	x.Inside += o.Inside
	x.Opened += o.Opened
	x.OpenedBytes += o.OpenedBytes
	x.Examined += o.Examined
	x.Found += o.Found
	x.SkippedByWhere += o.SkippedByWhere
	x.Hidden += o.Hidden
	x.Partials += o.Partials
	x.PartialsKnown += o.PartialsKnown
	x.Devices += o.Devices
	x.SelectNs += o.SelectNs
	x.Located += o.Located
	x.LocatedBlocks += o.LocatedBlocks
	x.LocatedSkipped += o.LocatedSkipped
	x.Workers += o.Workers
	x.PlanNs += o.PlanNs
}

// horizon implements source.
func (l *localSource) horizon(ctx context.Context, _ *record.Box) (int64, error) {
	return l.store.ExtendHorizon(ctx)
}

// horizon implements source.
func (r *remoteSource) horizon(ctx context.Context, box *record.Box) (int64, error) {
	ns, err := r.client().Horizon(ctx, box)
	return ns, r.wireError(ctx, err)
}

// Horizon returns the horizon of a box, below which nothing changes any more: the least of its
// sources. A linearizable one is above all that was acknowledged before: it waits for the horizons
// of groups that were written to less lately.
func (e *Engine) Horizon(
	ctx context.Context, options request.Options, box *record.Box,
) (int64, error) {
	options = options.CompleteOnly()
	least, greatest, err := e.horizons(ctx, options, box)
	if err != nil || !options.Linearizable || least >= greatest || e.isCopy() {
		return least, err // horizons of mirrors do not move with the clock
	}
	options.Linearizable = false
	return e.horizonOfSome(ctx, options.AllPassing(greatest-1), box)
}

// horizonOfSome is Horizon of the sources that answer, if partial answers are allowed.
func (e *Engine) horizonOfSome(
	ctx context.Context, options request.Options, box *record.Box,
) (int64, error) {
	least, _, err := e.horizons(ctx, options, box)
	return least, err
}

// horizons returns the least and the greatest horizon of the sources of a box.
func (e *Engine) horizons(
	ctx context.Context, options request.Options, box *record.Box,
) (least, greatest int64, err error) {
	if only := e.routes.Load().single; only != nil {
		least, err = only.store.ExtendHorizon(ctx)
		return least, least, err
	}
	a, err := askSources(ctx, e, options, askFacts, box, func(
		ctx context.Context, s source,
	) (none struct{}, end wire.End, err error) {
		end.HorizonNs, err = s.horizon(ctx, box)
		return none, end, err
	})
	for _, end := range a.ends {
		greatest = max(greatest, end.HorizonNs)
	}
	return a.end().HorizonNs, greatest, err
}
