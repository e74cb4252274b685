package client

import (
	"context"
	"net/http"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Explain makes the node run a query without its plugins, order and limit, and say how the rows
// were found and what that cost; of an aggregate also, which states of parts of blocks are kept. No
// record travels.
func (c *Client) Explain(ctx context.Context, q *record.Query) (Explanation, error) {
	var x Explanation
	checked := *q
	if err := checked.Normalize(); err != nil {
		return x, err
	}
	err := c.doJSON(ctx, http.MethodPost, "/v1/explain", wire.ContentType,
		wire.AppendQuery(nil, &checked), &x)
	return x, err
}
