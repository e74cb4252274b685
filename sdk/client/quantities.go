package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Quantity says what the records of one moid measure, and what their payloads are.
type Quantity struct {
	MOID   int32           `json:"moid"`
	Name   string          `json:"name"`
	Unit   string          `json:"unit,omitempty"`
	Type   string          `json:"type"`             // f64, f32, i64, i32, u32, text, bytes, struct
	Fields []QuantityField `json:"fields,omitempty"` // of a struct
}

// QuantityField is a field of a struct: where it starts in the payload and what is there.
type QuantityField struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Offset uint32 `json:"offset"`
}

// Quantities returns what is declared of moids, by moid.
func (c *Client) Quantities(ctx context.Context) ([]Quantity, error) {
	var out struct {
		Quantities []Quantity `json:"quantities"`
	}
	err := c.getJSON(ctx, "/v1/quantities", &out)
	return out.Quantities, err
}

// SetQuantity declares what the records of a moid measure, in place of what was declared before.
func (c *Client) SetQuantity(ctx context.Context, q Quantity) error {
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
