package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/pentad-db/pentad/sdk/wire"
)

// Quantities returns what is declared of moids, by moid. A node of a cluster may hear of a
// declaration a moment later than others; a [Client.Linearizable] has it ask them.
func (c *Client) Quantities(ctx context.Context) ([]Quantity, error) {
	var out map[string][]Quantity
	err := c.getJSON(ctx, "/v1/quantities", &out)
	return out["quantities"], err
}

// SetQuantity declares what the records of a moid measure, in place of what was declared before.
func (c *Client) SetQuantity(ctx context.Context, q Quantity) error {
	if err := q.Check(); err != nil { // JSON has no NaN
		return &wire.Error{Kind: wire.KindInvalid, Part: "quantity", Message: err.Error()}
	}
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	var stored Quantity
	return c.doJSON(ctx, http.MethodPut, fmt.Sprintf("/v1/quantities/%d", q.MOID),
		"application/json", body, &stored)
}

// ForgetQuantity takes back what was declared of a moid.
func (c *Client) ForgetQuantity(ctx context.Context, moid int32) error {
	var out struct{}
	return c.doJSON(ctx, http.MethodDelete, fmt.Sprintf("/v1/quantities/%d", moid), "", nil, &out)
}
