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
// and at what cost; for an aggregate also, how many partial states are cached.
func (e *Engine) Explain(
	ctx context.Context, options request.Options, q *record.Query,
) (api.Explanation, error) {
	permit, err := e.admit(ctx, options, q)
	if err != nil {
		return api.Explanation{}, err
	}
	defer permit.Done()
	ctx, p, leave, err := e.begin(ctx, &permit.prepared)
	if err != nil {
		return api.Explanation{}, err
	}
	defer leave()
	only := e.routes.Load().single
	if only == nil {
		x, err := e.explainAll(ctx, p)
		x.Ignored = ignoredBy(q)
		return x, err
	}
	x, err := only.explainRows(ctx, p)
	x.Ignored = ignoredBy(q)
	return x, err
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
