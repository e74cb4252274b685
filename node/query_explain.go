package node

import (
	"context"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// Explanation is a [store.Explanation] of a query, without the steps after the scan.
type Explanation struct {
	store.Explanation
	Ignored []string `json:"ignored"` // parts of the query that were left aside

	// Sources are the explanations of several sources, which alone contain segments.
	Sources []SourceExplanation `json:"sources,omitempty"`
}

// Explain runs a query without its plugins, order and limit, and returns how its rows were found
// and at what cost; for an aggregate also, how many partial states are cached.
func (n *Node) Explain(ctx context.Context, q *record.Query) (Explanation, error) {
	ctx, leave, err := n.begin(ctx, q)
	if err != nil {
		return Explanation{}, err
	}
	defer leave()
	only := n.routes.Load().single
	if only == nil {
		x, err := n.explainAll(ctx, q)
		x.Ignored = ignoredBy(q)
		return x, err
	}
	x, err := only.explainRows(ctx, q)
	return Explanation{Explanation: x, Ignored: ignoredBy(q)}, err
}

// explainRows explains the scan of one store.
func (n *localSource) explainRows(ctx context.Context, q *record.Query) (store.Explanation, error) {
	look, err := n.partialLookups(ctx, q)
	if err != nil {
		return store.Explanation{}, err
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
