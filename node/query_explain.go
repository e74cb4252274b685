package node

import (
	"context"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// Explain runs a query without its plugins, order and limit, and returns how its rows were found
// and at what cost; for an aggregate also, how many partial states are cached.
func (n *Node) Explain(ctx context.Context, q *record.Query) (api.Explanation, error) {
	if err := q.Normalize(); err != nil {
		return api.Explanation{}, err
	}
	permit, err := n.admit(ctx, q)
	if err != nil {
		return api.Explanation{}, err
	}
	defer permit.done()
	ctx, leave, err := n.begin(ctx, q)
	if err != nil {
		return api.Explanation{}, err
	}
	defer leave()
	only := n.routes.Load().single
	if only == nil {
		x, err := n.explainAll(ctx, q)
		x.Ignored = ignoredBy(q)
		return x, err
	}
	x, err := only.explainRows(ctx, q)
	x.Ignored = ignoredBy(q)
	return x, err
}

// explainRows explains the scan of one store.
func (n *localSource) explainRows(ctx context.Context, q *record.Query) (api.Explanation, error) {
	look, err := n.partialLookups(ctx, q)
	if err != nil {
		return api.Explanation{}, err
	}
	bare := *q
	bare.Filters, bare.Aggregate, bare.Order, bare.Limit =
		nil, record.PluginCall{}, record.OrderNone, 0
	return n.store.ExplainPartials(ctx, &bare, look)
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
func (n *localSource) partialLookups(
	ctx context.Context, q *record.Query,
) (func() store.PartialSink, error) {
	if q.Aggregate.Name == "" {
		return nil, nil
	}
	module, err := n.plugins.UseCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err != nil {
		return nil, err
	}
	defer n.plugins.Release(module)
	filters, err := n.useFilters(ctx, q)
	defer n.releaseFilters(filters)
	if err != nil {
		return nil, err
	}
	return n.partialCacheOf(ctx, module).Lookups(q, filters), nil
}
