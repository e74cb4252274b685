package edge

import (
	"encoding/hex"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/api"
)

// Shipping returns how far the edge is.
func (e *Edge) Shipping() api.Shipping {
	if !e.meter.isCounted() {
		return api.Shipping{Quota: e.opt.Quota, Policy: e.opt.Full.String(),
			Error: "what waits to be shipped is being counted"}
	}
	s := e.outbox.now()
	out := api.Shipping{Edge: hex.EncodeToString(e.outbox.writer.ID[:]),
		WaitingBytes: e.meter.waiting(), Quota: e.opt.Quota, Policy: e.opt.Full.String(),
		ClosedAcqNs: s.ackedNs(), Batch: s.Seq,
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
