package edge

import (
	"encoding/hex"

	"github.com/pentad-db/pentad/node"
)

// Shipping is how far an edge is.
type Shipping struct {
	Edge         string `json:"edge"`          // its id, by which upstream knows it
	Upstream     string `json:"upstream"`      // the node that is shipped to now
	WaitingBytes int64  `json:"waiting_bytes"` // of records that upstream does not have
	Quota        int64  `json:"quota_bytes"`
	Policy       string `json:"policy"`
	AckedNs      int64  `json:"acked_ns"`      // when upstream took something last; 0: not yet
	ClosedAcqNs  int64  `json:"closed_acq_ns"` // all below is shipped or dropped
	Batch        uint64 `json:"batch"`         // number of the newest batch that upstream has
	Shipped      int64  `json:"shipped_records"`
	ShippedBytes int64  `json:"shipped_bytes"`
	Replayed     int64  `json:"replayed_batches"` // upstream had them when they were sent
	Dropped      int64  `json:"dropped_records"`
	DroppedBytes int64  `json:"dropped_bytes"`
	DroppedNs    int64  `json:"dropped_ns"`      // when something was dropped last; 0: never
	Losses       uint64 `json:"upstream_losses"` // how often upstream had lost what it had taken
	LostNs       int64  `json:"lost_ns"`         // when that was noticed last; 0: never
	LostFromNs   int64  `json:"lost_from_acq_ns"`
	LostToNs     int64  `json:"lost_to_acq_ns"`
	AgainRecords int64  `json:"again_records"` // that were here yet, and are sent again
	GoneRecords  int64  `json:"gone_records"`  // that were removed here before, at most
	GoneToNs     int64  `json:"gone_to_acq_ns"`
	RetryNs      int64  `json:"retry_ns"` // when upstream is tried again; 0: nothing failed
	Error        string `json:"error"`    // since upstream took something last
}

// Shipping returns how far the edge is.
func (e *Edge) Shipping() Shipping {
	if !e.meter.isCounted() {
		return Shipping{Quota: e.opt.Quota, Policy: e.opt.Full.String(),
			Error: "what waits to be shipped is being counted"}
	}
	s := e.box.now()
	out := Shipping{Edge: hex.EncodeToString(e.box.writer[:]), WaitingBytes: e.meter.waiting(),
		Quota: e.opt.Quota, Policy: e.opt.Full.String(), ClosedAcqNs: s.ackedNs(), Batch: s.Seq,
		Shipped: s.Shipped.Records, ShippedBytes: s.Shipped.Bytes, Replayed: s.Replayed,
		Dropped: s.Dropped.Records, DroppedBytes: s.Dropped.Bytes, DroppedNs: s.DropNs}
	if l := s.Lack; l != nil {
		out.Losses, out.LostNs, out.LostFromNs, out.LostToNs = s.Lacks, l.TimeNs, l.FromNs, l.ToNs
		out.AgainRecords, out.GoneRecords, out.GoneToNs = l.Here, l.Gone, l.GoneNs
	}
	out.Upstream, _ = e.up.pick()
	e.up.mu.Lock()
	defer e.up.mu.Unlock()
	if !e.up.ackedAt.IsZero() {
		out.AckedNs = e.up.ackedAt.UnixNano()
	}
	if e.up.lastErr != nil {
		out.Error = e.up.lastErr.Error()
		if !e.up.retryAt.IsZero() {
			out.RetryNs = e.up.retryAt.UnixNano()
		}
	}
	return out
}

// String returns the policy as people write it.
func (p Policy) String() string {
	if p == DropOldest {
		return "drop-oldest"
	}
	return "block"
}

// figures are what /metrics shows.
func (e *Edge) figures() []node.Figure {
	s := e.Shipping()
	failing := 0.0
	if s.Error != "" {
		failing = 1
	}
	return []node.Figure{
		{Name: "edge_waiting_bytes", Help: "Bytes of records that upstream does not have.",
			Value: float64(s.WaitingBytes)},
		{Name: "edge_quota_bytes", Help: "Bytes that may wait.", Value: float64(s.Quota)},
		{Name: "edge_shipped_records_total", Help: "Records that upstream has.",
			Value: float64(s.Shipped), Total: true},
		{Name: "edge_shipped_bytes_total", Help: "Bytes of records that upstream has.",
			Value: float64(s.ShippedBytes), Total: true},
		{Name: "edge_replayed_batches_total", Help: "Batches that upstream had when " +
			"they were sent.", Value: float64(s.Replayed), Total: true},
		{Name: "edge_dropped_records_total", Help: "Records dropped before they were shipped.",
			Value: float64(s.Dropped), Total: true},
		{Name: "edge_upstream_losses_total", Help: "How often upstream had lost what it had taken.",
			Value: float64(s.Losses), Total: true},
		{Name: "edge_failing", Help: "1 while upstream takes nothing.", Value: failing},
		{Name: "edge_acked_seconds", Help: "When upstream took something last, Unix time; 0: not " +
			"since the start.", Value: float64(s.AckedNs) / 1e9},
	}
}
