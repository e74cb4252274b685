package store

import (
	"context"
	"time"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Scan gives the rows in the box of q that its view shows to sinks. newSink is called once for
// each worker that finds something to do, in any order, one at a time, while other workers may be
// using theirs; a sink is used by one goroutine at a time. Order, limit and plugins of q are the
// caller's.
//
// The query must be normalized. Errors: ErrClosed, *durable.CorruptError, ctx.Err(), and what
// sinks return.
func (s *Store) Scan(
	ctx context.Context, q *record.Query, newSink func(worker int) (Sink, error),
) (ScanStats, error) {
	return s.ScanColumns(ctx, q, segment.AllColumns, newSink)
}

// ScanColumns is Scan for sinks that look at some columns of rows only: other key columns may hold
// any values, payloads may be empty, and without acq the rows may be unstamped.
func (s *Store) ScanColumns(
	ctx context.Context, q *record.Query, columns segment.Columns,
	newSink func(worker int) (Sink, error),
) (ScanStats, error) {
	return s.ScanInto(ctx, q, 1, func(worker int) (Consumer, error) {
		sink, err := newSink(worker)
		return Consumer{Rows: sink, Columns: columns}, err
	})
}

// ScanInto is ScanColumns for consumers of more kinds. Where nothing can lie in the box, none is
// made. The number concurrentScans is how many scans of the process serve the same query at the
// same time, this one included: each uses its share of the processors.
func (s *Store) ScanInto(
	ctx context.Context, q *record.Query, concurrentScans int,
	newConsumer func(worker int) (Consumer, error),
) (ScanStats, error) {
	return s.scanInto(ctx, q, concurrentScans, s.newScan, newConsumer)
}

// ScanByKey is ScanInto for a query whose groups have keys: before it makes a consumer it calls
// found with what the devices of the query have for them, in the view of the query.
//
// Errors also: *record.InvalidError for devices that take too much memory.
func (s *Store) ScanByKey(
	ctx context.Context, q *record.Query, concurrentScans int, found func(*DeviceValues) error,
	newConsumer func(worker int) (Consumer, error),
) (ScanStats, error) {
	keys, err := registry.ParseKeys(q.GroupBy.Key)
	if err != nil {
		return ScanStats{}, err
	}
	newScan := func(ctx context.Context, q *record.Query) (*scan.Scan, error) {
		sc, values, err := s.newKeyedScan(ctx, q, keys)
		if err == nil {
			if err = found(values); err != nil {
				sc.Close()
			}
		}
		return sc, err
	}
	return s.scanInto(ctx, q, concurrentScans, newScan, newConsumer)
}

func (s *Store) scanInto(
	ctx context.Context, q *record.Query, concurrentScans int,
	newScan func(context.Context, *record.Query) (*scan.Scan, error),
	newConsumer func(worker int) (Consumer, error),
) (ScanStats, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	began := time.Now()
	sc, err := newScan(ctx, q)
	if err != nil {
		return ScanStats{}, err
	}
	defer sc.Close()
	if sc.Empty {
		sc.Stats.TookNs = int64(time.Since(began))
		return sc.Stats, nil
	}
	sc.ConcurrentScans = concurrentScans
	err = sc.Run(newConsumer)
	sc.Stats.TookNs = int64(time.Since(began))
	s.counters.scans.Add(1)
	s.counters.blocksScanned.Add(int64(sc.Stats.BlocksScanned))
	return sc.Stats, s.recordDamage(err)
}

// Count returns how many rows a query finds. Blocks that lie inside the box, and of which it
// is known how many rows have a newer version, are counted without opening them.
func (s *Store) Count(ctx context.Context, q *record.Query) (uint64, ScanStats, error) {
	return s.CountConcurrent(ctx, q, 1)
}

// CountConcurrent is Count as one of a number of scans, see [Store.ScanInto].
func (s *Store) CountConcurrent(
	ctx context.Context, q *record.Query, concurrentScans int,
) (uint64, ScanStats, error) {
	keys := *q
	keys.KeysOnly = true
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	began := time.Now()
	sc, err := s.newScan(ctx, &keys)
	if err != nil {
		return 0, ScanStats{}, err
	}
	defer sc.Close()
	if sc.Empty {
		sc.Stats.TookNs = int64(time.Since(began))
		return 0, sc.Stats, nil
	}
	sc.ConcurrentScans = concurrentScans
	err = sc.Count()
	sc.Stats.TookNs = int64(time.Since(began))
	return sc.Stats.Rows, sc.Stats, s.recordDamage(err)
}

// newScan begins a scan up to the horizon.
func (s *Store) newScan(ctx context.Context, q *record.Query) (*scan.Scan, error) {
	if q.Select != "" { // without one nothing moves
		return s.newSelectScan(ctx, q)
	}
	horizon, err := s.ExtendHorizon(ctx)
	if err != nil {
		return nil, err
	}
	return s.scans.Begin(ctx, q, horizon), nil
}

// newQuietScan begins a scan up to the present horizon. Other than newScan it does not advance the
// horizon to the clock, and so writes nothing to the log.
func (s *Store) newQuietScan(ctx context.Context, q *record.Query) (*scan.Scan, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	return s.scans.Begin(ctx, q, s.oracle.CurrentHorizon()), nil
}
