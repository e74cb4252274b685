package client

import (
	"context"
	"encoding/hex"
	"strconv"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Edge returns how far an edge node is; another node says that it is not one.
func (c *Client) Edge(ctx context.Context) (out Edge, err error) {
	return out, c.getJSON(ctx, "/v1/edge", &out)
}

// PutAfter stores a batch that follows another one of its writer, or none for 0: a node by itself
// stores nothing when that is not the newest one of the writer that it knows. A cluster takes the
// batch in any case.
//
// Errors: a *wire.Error of kind sequence-gap, which says what the newest one is; those of Put.
func (c *Client) PutAfter(
	ctx context.Context, b *record.Batch, w record.Writer, seq, previous uint64,
) (wire.PutReply, error) {
	if err := b.Validate(); err != nil {
		return wire.PutReply{}, err
	}
	body, err := wire.AppendPut(nil, &wire.Put{Writer: w.ID, Persistent: w.Persistent, Seq: seq,
		Batch: b})
	if err != nil {
		return wire.PutReply{}, err
	}
	path := "/v1/put?" + wire.ParamPrevious + "=" + strconv.FormatUint(previous, 10)
	return c.putBody(ctx, path, body)
}

// Follows asks whether a batch with this sequence is the newest one of a writer that the node
// knows; a cluster says yes.
//
// Errors: a *wire.Error of kind sequence-gap, which says what the newest one is.
func (c *Client) Follows(ctx context.Context, w record.Writer, previous uint64) error {
	path := "/v1/put?" + wire.ParamPrevious + "=" + strconv.FormatUint(previous, 10) + "&" +
		wire.ParamWriter + "=" + hex.EncodeToString(w.ID[:])
	if w.Persistent {
		path += "&" + wire.ParamPersistent + "=1"
	}
	_, err := c.putBody(ctx, path, nil)
	return err
}
