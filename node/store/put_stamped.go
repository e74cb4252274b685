package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// PutStamped stores a batch under the acquisition times that it brings: for the copy of another
// system's records, in the order in which that one took them. The times must rise from record to
// record, lie above all that the store has assigned, leased or been brought, and not in the future.
// So nothing is added below the horizon; it follows the clock as soon as someone asks for it, and
// older times are refused from then on. On return the batch is durable and visible.
//
// Returns: the least time that it would have taken, which the next batch may begin with.
// Errors: as of Put; for times that it cannot take a *record.InvalidError of part acq.
func (s *Store) PutStamped(ctx context.Context, b *record.Batch) (floorNs int64, err error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	if err := cmp.Or(s.refuseReplicated(), checkStamps(b)); err != nil {
		return 0, err
	}
	if err := s.headBudget.Wait(ctx, 0); err != nil {
		return 0, err
	}
	put := &putRequest{rows: b.Len(), done: make(chan struct{}),
		byShard: s.split(b)}
	splitStamps(put.byShard, b, len(s.shards))
	entries, shards := stampedEntries(put.byShard)
	var failed error
	err = s.onCommitter(ctx, func() {
		floorNs, failed = s.commitStamped(put, b.AcqNs, entries, shards)
	})
	return floorNs, errors.Join(err, failed)
}

func checkStamps(b *record.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	if b.AcqNs == nil {
		return refusedAcq(0, "the batch has none")
	}
	for i, acq := range b.AcqNs {
		if i > 0 && acq <= b.AcqNs[i-1] {
			return refusedAcq(i, "%s is not above %s, the one before it", record.FormatNs(acq),
				record.FormatNs(b.AcqNs[i-1]))
		}
	}
	return nil
}

func refusedAcq(row int, format string, args ...any) error {
	return &record.InvalidError{Part: "acq", Reason: record.OutOfRange, Row: row,
		Detail: fmt.Sprintf(format, args...)}
}

// splitStamps stamps the rows of a batch that were divided by shard with the acqs of the batch.
func splitStamps(byShard []shardRows, b *record.Batch, shards int) {
	next := make([][]int64, shards)
	for i := range byShard {
		next[byShard[i].shard] = byShard[i].rows.AcqNs
	}
	for i, acq := range b.AcqNs {
		shard := layout.ShardOf(b.CID[i], b.MID[i], shards)
		next[shard][0] = acq
		next[shard] = next[shard][1:]
	}
}

// stampedEntries makes a log entry of each run of consecutive acqs, and says of which shard it is.
func stampedEntries(byShard []shardRows) (entries []wal.Entry, shards []int) {
	for i := range byShard {
		acqs := byShard[i].rows.AcqNs
		var rows []uint32
		for k, acq := range acqs {
			rows = append(rows, uint32(k))
			if k+1 < len(acqs) && acqs[k+1] == acq+1 {
				continue
			}
			first := acqs[rows[0]]
			data := segment.AppendRowsEntry(nil, &segment.RowsHeader{FirstAcqNs: first,
				BatchFirstAcqNs: first, BatchRecords: uint32(len(rows)), BatchEntries: 1},
				&byShard[i].rows, rows)
			entries = append(entries, wal.Entry{Data: data})
			shards = append(shards, byShard[i].shard)
			rows = rows[:0]
		}
	}
	return entries, shards
}

// commitStamped is the part of PutStamped on the committer.
func (s *Store) commitStamped(
	put *putRequest, acqs []int64, entries []wal.Entry, shards []int,
) (floorNs int64, err error) {
	floor := max(s.oracle.NextNs(), 1) // acq 0 and below are before any clock
	switch now := s.opt.Now(); {
	case s.failed.Err() != nil:
		return floor, s.failed.Err()
	case s.oracle.IsCopy():
		return floor, ErrIsCopy
	case acqs[0] < floor:
		return floor, refusedAcq(0, "%s is below %s, up to which acqs were assigned or "+
			"leased already",
			record.FormatNs(acqs[0]), record.FormatNs(floor))
	case acqs[len(acqs)-1] > now:
		return floor, refusedAcq(len(acqs)-1, "%s is in the future: the clock shows %s",
			record.FormatNs(acqs[len(acqs)-1]), record.FormatNs(now))
	}
	next, ok := s.oracle.ReserveAt(acqs[0], acqs[len(acqs)-1]+1)
	if !ok { // a horizon was asked for
		return next, refusedAcq(0, "%s is below %s, up to which acqs were leased just now",
			record.FormatNs(acqs[0]), record.FormatNs(next))
	}
	for i, shard := range shards {
		data := entries[i].Data
		entries[i] = s.shards[shard].NextEntry()
		entries[i].Data = data
	}
	began := time.Now()
	file, err := s.appendLog(entries)
	s.counters.logNs.Add(int64(time.Since(began)))
	s.counters.logAppends.Add(1)
	if err != nil {
		if errors.Is(err, durable.ErrNoSpace) {
			s.oracle.UnreserveFrom(acqs[0]) // nothing of it is on disk: it may come again
		}
		s.refuse([]*putRequest{put}, entries, fmt.Errorf("commit: %w", err))
		return s.oracle.NextNs(), put.err
	}
	s.recordLogFile(file, entries)
	s.insert([]*putRequest{put})
	s.oracle.EndCommit()
	notifyFeeds(s.feeds, []*putRequest{put})
	s.counters.rows.Add(int64(put.rows))
	s.rotateFull()
	s.throttle.Wait(put.rows, s.stop)
	return s.oracle.NextNs(), nil
}
