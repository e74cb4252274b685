package engine

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// Explain runs a query without its plugins, order and limit, and returns how its rows were found
// and at what cost; for an aggregate also, how many partial states are cached. Or it explains
// something else of the box and the devices of the query.
//
// Errors also: *record.InvalidError for parts of the query that this does not have.
func (e *Engine) Explain(
	ctx context.Context, options request.Options, q *record.Query, of api.ExplainOf,
) (api.Explanation, error) {
	q, err := queryOf(q, of)
	if err != nil {
		return api.Explanation{}, err
	}
	permit, err := e.admit(ctx, options, q)
	if err != nil {
		return api.Explanation{}, err
	}
	defer permit.Done()
	switch of.Of {
	case api.ExplainDiff:
		err = e.CheckMoments(ctx, options, diffOf(q, of))
	case api.ExplainChanges:
		if of.FromNs == SinceNow {
			of.FromNs, err = e.Horizon(ctx, options, &q.Box)
		}
	}
	if err != nil {
		return api.Explanation{}, err
	}
	ctx, p, share, err := e.begin(ctx, &permit.prepared)
	if err != nil {
		return api.Explanation{}, err
	}
	defer share.End()
	only := e.routes.Load().single
	if only == nil {
		x, err := e.explainAll(ctx, p, of)
		x.Ignored = ignoredBy(q)
		return x, err
	}
	x, err := only.explainOf(ctx, p, of)
	x.Ignored = ignoredBy(q)
	return x, err
}

// queryOf returns the query whose box and devices something else is explained of.
func queryOf(q *record.Query, of api.ExplainOf) (*record.Query, error) {
	if of.Of == "" {
		return q, nil
	}
	for _, part := range []struct {
		name  string
		there bool
	}{{"acq", len(q.Box[record.Acq]) > 0}, {"as of", q.View == record.ViewAsOf},
		{"last", q.Last > 0}, {"where", q.Where != ""}, {"moving", q.Moving != ""},
		{"filter", len(q.Filters) > 0}, {"aggregate", q.Aggregate.Name != ""}} {
		if part.there {
			return nil, &record.InvalidError{Part: part.name, Reason: record.Inconsistent, Row: -1,
				Detail: "is not a part of " + of.Of + "; leave it out"}
		}
	}
	return &record.Query{Box: q.Box, Select: q.Select, KeysOnly: q.KeysOnly}, nil
}

func diffOf(q *record.Query, of api.ExplainOf) *record.Diff {
	return &record.Diff{Box: q.Box, Select: q.Select, FromNs: of.FromNs, ToNs: of.ToNs}
}

// explainOf explains a query of one store, or something else of its box and devices.
func (l *localSource) explainOf(
	ctx context.Context, q *prepared, of api.ExplainOf,
) (api.Explanation, error) {
	switch of.Of {
	case api.ExplainDiff:
		return l.store.ExplainDiff(ctx, diffOf(q.Query, of))
	case api.ExplainChanges:
		return l.store.ExplainChanges(ctx, q.Box, q.Select, q.KeysOnly, of.FromNs)
	}
	return l.explainRows(ctx, q)
}

// explainRows explains the scan of one store.
func (l *localSource) explainRows(ctx context.Context, q *prepared) (api.Explanation, error) {
	look, err := l.partialLookups(ctx, q)
	if err != nil {
		return api.Explanation{}, err
	}
	bare := *q.Query
	bare.Filters, bare.Aggregate, bare.Order, bare.Limit =
		nil, record.PluginCall{}, record.OrderNone, 0
	return l.store.ExplainPartials(ctx, &bare, look)
}

func ignoredBy(q *record.Query) []string {
	ignored := []string{}
	for _, part := range []struct {
		name  string
		there bool
	}{
		{"filter", len(q.Filters) > 0}, {"aggregate", q.Aggregate.Name != ""},
		{"order", q.Order != record.OrderNone}, {"limit", q.Limit > 0},
	} {
		if part.there {
			ignored = append(ignored, part.name)
		}
	}
	return ignored
}

// partialLookups returns what makes lookups for an aggregate, nil if its states are never cached.
func (l *localSource) partialLookups(
	ctx context.Context, q *prepared,
) (func() store.PartialSink, error) {
	if q.Aggregate.Name == "" {
		return nil, nil
	}
	module, err := l.engine.plugins.UseCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err != nil {
		return nil, err
	}
	defer l.engine.plugins.Unpin(module)
	filters, err := l.engine.pinFilters(ctx, q.Query)
	defer l.engine.unpinFilters(filters)
	if err != nil {
		return nil, err
	}
	return l.engine.partialCacheOf(q.options, module).Lookups(q.Query, filters), nil
}
