package client

import "context"

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
	RetryNs      int64  `json:"retry_ns"` // when upstream is tried again; 0: nothing failed
	Error        string `json:"error"`    // since upstream took something last
}

// Edge returns how far an edge node is; another node says that there is no such route.
func (c *Client) Edge(ctx context.Context) (out Edge, err error) {
	return out, c.getJSON(ctx, "/v1/edge", &out)
}
