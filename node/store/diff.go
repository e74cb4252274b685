package store

import (
	"context"
	"time"

	"github.com/pentad-db/pentad/node/store/diff"
	"github.com/pentad-db/pentad/sdk/record"
)

// Diff gives to sink what became of the readings of a box between two acqs: how the view as of
// ToNs differs from that as of FromNs. A reading that was put again with the payload that it had
// is no difference. What is purged was never there, at either acq. Differences come in no order. A
// selector chooses devices by their descriptions as of ToNs.
//
// Errors: *record.InvalidError, ErrClosed, *durable.CorruptError, ctx.Err(), and what sink returns.
// Cost: that of the rows that were acquired between the acqs or erased between them, and of
// finding the older versions of those that have some; at most maxReadings readings in memory.
func (s *Store) Diff(ctx context.Context, ask *record.Diff, sink DiffSink) (ScanStats, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	began := time.Now()
	checked := *ask
	if err := checked.Normalize(); err != nil {
		return ScanStats{}, err
	}
	some, chosen, err := s.selectInto(ctx, &checked.Box, checked.Select, checked.ToNs)
	if err != nil {
		return ScanStats{}, err
	}
	horizon, err := s.ExtendHorizon(ctx)
	if err != nil {
		return ScanStats{}, err
	}
	if !some {
		checked.FromNs = checked.ToNs // no reading differs
	}
	stats, err := diff.Run(ctx, &s.scans.Access, horizon, &checked, sink)
	stats.Devices, stats.SelectNs = chosen.Devices, chosen.SelectNs
	stats.TookNs = int64(time.Since(began))
	s.counters.scans.Add(1)
	s.counters.blocksScanned.Add(int64(stats.BlocksScanned))
	return stats, s.recordDamage(err)
}
