package client

import (
	"context"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Local is a node in the process of its caller, as far as its registry of devices needs one.
type Local interface {
	// Scan answers a normalized query with all that was acknowledged before; see [Client.Scan].
	Scan(ctx context.Context, q *record.Query, emit func(b *record.Batch) error) (wire.End, error)
	// Put stores a valid batch. With an acq of 0 or more it is refused, by an error of kind
	// conflict, if descriptions of its devices came after that acq.
	Put(ctx context.Context, b *record.Batch, unlessNewerNs int64) (wire.PutReply, error)
	// Purge removes the records of a checked box for ever.
	Purge(ctx context.Context, box *wire.Box) error
}

// NewLocal returns a client for names and descriptions of devices at a node of the same process.
// The methods about them ask it directly; others need a network, and must not be called.
func NewLocal(node Local) *Client { return &Client{local: node} }

// putDevices stores records of the registry of devices; unlessNewerNs is below 0 for no condition.
func (c *Client) putDevices(ctx context.Context, b *record.Batch, unlessNewerNs int64) error {
	if c.local == nil {
		_, err := c.putSurely(ctx, putPath(unlessNewerNs), b)
		return err
	}
	if err := b.Validate(); err != nil {
		return err
	}
	_, err := c.local.Put(ctx, b, unlessNewerNs)
	return err
}

// scanNow answers a query with all that was acknowledged before.
func (c *Client) scanNow(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	if c.local == nil {
		return c.Linearizable().Scan(ctx, q, emit)
	}
	checked := *q
	if err := checked.Normalize(); err != nil {
		return wire.End{}, err
	}
	return c.local.Scan(ctx, &checked, emit)
}
