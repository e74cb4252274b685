package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pentad-db/pentad/sdk/wire"
)

// Digest returns digests of slices of acq: how many rows each holds, and a sum that is the same for
// the same rows on every node. It tells two nodes apart without moving records.
func (c *Client) Digest(ctx context.Context, q *wire.DigestQuery) (wire.Digests, error) {
	var out wire.Digests
	payload, err := c.frame(ctx, http.MethodPost, "/v1/digest", wire.AppendDigestQuery(nil, q),
		wire.FrameDigests)
	if err == nil {
		err = wire.ParseDigests(payload, &out)
	}
	return out, err
}

// SyncState returns what a copy of the node needs to know beside its records, and of which node it
// is a copy itself.
func (c *Client) SyncState(ctx context.Context) (wire.State, error) {
	var out wire.State
	payload, err := c.frame(ctx, http.MethodGet, "/v1/sync", nil, wire.FrameState)
	if err == nil {
		err = wire.ParseState(payload, &out)
	}
	return out, err
}

// PutRange adds a range of another node to a copy; one that is there already changes nothing, so
// it may be sent again.
//
// Returns: where the copy ends now.
func (c *Client) PutRange(ctx context.Context, r *wire.Range) (horizonNs int64, err error) {
	body, err := wire.AppendRange(nil, r)
	if err != nil {
		return 0, err
	}
	payload, err := c.frame(ctx, http.MethodPost, "/v1/sync", body, wire.FrameEvent)
	var event wire.Event
	if err == nil {
		err = wire.ParseEvent(payload, &event)
	}
	return event.AcqNs, err
}

// PromoteCopy makes a copy an independent node, which takes puts, and ranges no more.
func (c *Client) PromoteCopy(ctx context.Context) error {
	var out struct{}
	return c.doJSON(ctx, http.MethodDelete, "/v1/sync", "", nil, &out)
}

// frame sends frames and returns the payload of an answer that is one frame.
func (c *Client) frame(
	ctx context.Context, method, path string, body []byte, want wire.FrameType,
) ([]byte, error) {
	answer, err := c.do(ctx, method, path, wire.ContentType, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Close() }()
	t, payload, err := wire.NewReader(answer, wire.MaxFramePayload).Next()
	if err == nil && t != want {
		err = fmt.Errorf("it is a frame of type %d, not %d", t, want)
	}
	if err != nil {
		return nil, fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	return payload, nil
}
