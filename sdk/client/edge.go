package client

import (
	"context"
	"encoding/hex"
	"strconv"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Edge is how far an edge node is with shipping what it took.
type Edge struct {
	Edge         string `json:"edge"`     // its id, by which upstream knows it
	Upstream     string `json:"upstream"` // the node that is shipped to now
	WaitingBytes int64  `json:"waiting_bytes"`
	Quota        int64  `json:"quota_bytes"` // that may wait
	Policy       string `json:"policy"`      // when as much does: block or drop-oldest
	AckedNs      int64  `json:"acked_ns"`    // when upstream took something last; 0: not yet
	ClosedAcqNs  int64  `json:"closed_acq_ns"`
	Shipped      int64  `json:"shipped_records"`
	Dropped      int64  `json:"dropped_records"` // and never shipped
	DroppedNs    int64  `json:"dropped_ns"`
	Losses       uint64 `json:"upstream_losses"` // how often upstream had lost what it had taken
	LostNs       int64  `json:"lost_ns"`         // when that was noticed last; 0: never
	AgainRecords int64  `json:"again_records"`   // that were there yet then, and are sent again
	GoneRecords  int64  `json:"gone_records"`    // that the edge had removed before, at most
	RetryNs      int64  `json:"retry_ns"`        // when upstream is tried again; 0: nothing failed
	Error        string `json:"error"`           // since upstream took something last
}

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
	ctx context.Context, b *record.Batch, writer [16]byte, seq, previous uint64,
) (wire.PutReply, error) {
	if err := b.Validate(); err != nil {
		return wire.PutReply{}, err
	}
	body, err := wire.AppendPut(nil, &wire.Put{Writer: writer, Seq: seq, Batch: b})
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
func (c *Client) Follows(ctx context.Context, writer [16]byte, previous uint64) error {
	path := "/v1/put?" + wire.ParamPrevious + "=" + strconv.FormatUint(previous, 10) + "&" +
		wire.ParamWriter + "=" + hex.EncodeToString(writer[:])
	_, err := c.putBody(ctx, path, nil)
	return err
}
