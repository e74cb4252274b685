package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// impaired reports whether the node that answers has a problem that keeps it from being ready.
func (c *Client) impaired(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	h, err := c.NodeHealth(ctx)
	return err == nil && slices.ContainsFunc(h.Problems, func(p Problem) bool { return p.NotReady })
}

// NodeHealth returns what is wrong with the node that answers, also when it is not ready.
func (c *Client) NodeHealth(ctx context.Context) (h NodeHealth, err error) {
	body, err := c.do(ctx, http.MethodGet, "/v1/health", "", nil)
	if err != nil {
		return h, err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, maxErrorBytes))
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		return h, fmt.Errorf("read health: %w", err)
	}
	return h, nil
}
