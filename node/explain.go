package node

import (
	"context"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Explanation is a [store.Explanation] of a query without what works on the rows that were found.
type Explanation struct {
	store.Explanation
	Ignored []string `json:"ignored"` // parts of the query that were left aside

	// Sources are what each says, where there are several; their segments stand there alone.
	Sources []SourceExplanation `json:"sources,omitempty"`
}

// Explain runs a query without its plugins, order and limit, and says how its rows were found and
// what that cost; of an aggregate also, which states of parts of blocks are kept.
func (n *Node) Explain(ctx context.Context, q *record.Query) (Explanation, error) {
	ctx, leave, err := n.begin(ctx, q)
	if err != nil {
		return Explanation{}, err
	}
	defer leave()
	only := n.layout.Load().only
	if only == nil {
		x, err := n.explainAll(ctx, q)
		x.Ignored = ignoredBy(q)
		return x, err
	}
	x, err := only.explainRows(ctx, q)
	return Explanation{Explanation: x, Ignored: ignoredBy(q)}, err
}

// explainRows explains how one store finds the rows of a query.
func (n *local) explainRows(ctx context.Context, q *record.Query) (store.Explanation, error) {
	look, err := n.lookingFor(ctx, q)
	if err != nil {
		return store.Explanation{}, err
	}
	bare := *q
	bare.Filters, bare.Aggregate, bare.Order, bare.Limit =
		nil, record.PluginCall{}, record.OrderNone, 0
	return n.store.ExplainApart(ctx, &bare, look)
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

// explain takes the parameters of records, so that a question can be explained as it stands. How
// records are written does not matter.
func (s *server) explain(ctx *fasthttp.RequestCtx) {
	q, err := s.parseBox(ctx)
	if err == nil {
		_, err = parsePayloadType(ctx)
	}
	if err == nil {
		_, err = ndjson(ctx)
	}
	s.writeExplanation(ctx, q, err)
}

// explainFrame answers a query frame with the same document.
func (s *server) explainFrame(ctx *fasthttp.RequestCtx) {
	q := new(record.Query)
	err := wire.ParseQuery(ctx.PostBody(), q)
	s.writeExplanation(ctx, q, err)
}

// writeExplanation explains a query, unless reading it failed.
func (s *server) writeExplanation(ctx *fasthttp.RequestCtx, q *record.Query, err error) {
	var x Explanation
	if err == nil {
		rc, cancel := s.scoped(ctx)
		defer cancel()
		x, err = s.node.Explain(rc, q)
	}
	if err != nil {
		writeError(ctx, toWire(err))
		return
	}
	writeJSON(ctx, x)
}
