package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Explain makes the node run a query without its plugins, order and limit, and say how the rows
// were found and what that cost; of an aggregate also, which states of parts of blocks are kept. No
// record travels.
func (c *Client) Explain(ctx context.Context, q *record.Query) (Explanation, error) {
	return c.ExplainOf(ctx, q, ExplainOf{})
}

// ExplainOf is Explain of something else that is asked for the box and the devices of a query: of
// every version, of a diff, or of the next part of a change feed.
func (c *Client) ExplainOf(
	ctx context.Context, q *record.Query, of ExplainOf,
) (Explanation, error) {
	var x Explanation
	checked := *q
	if err := checked.Normalize(); err != nil {
		return x, err
	}
	path := "/v1/explain"
	if of.Of != "" {
		path += "?of=" + url.QueryEscape(of.Of)
	}
	number := func(name string, ns int64) {
		path += "&" + name + "=" + strconv.FormatInt(ns, 10)
	}
	switch of.Of {
	case api.ExplainDiff:
		number("from", of.FromNs)
		if of.ToNs < record.Acq.Max() {
			number("to", of.ToNs)
		}
	case api.ExplainChanges:
		if of.FromNs != record.Acq.Min() {
			number("since", of.FromNs)
		}
	}
	err := c.doJSON(ctx, http.MethodPost, path, wire.ContentType,
		wire.AppendQuery(nil, &checked), &x)
	return x, err
}
