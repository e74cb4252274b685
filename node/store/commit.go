package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxWriteGroupBytes is how many bytes one append gathers, rowOverheadBytes included; larger write
// groups only add latency.
const maxWriteGroupBytes = 8 << 20

// rowOverheadBytes is what a row takes in memory beside its payload, for the bound on a write
// group.
const rowOverheadBytes = 64

// PutResult is the answer to a put. Acquisition times of a batch are consecutive.
type PutResult struct {
	FirstAcqNs, LastAcqNs int64
	Records               int
	Duplicate             bool // the batch was stored before; the times are those of the first put
}

func resultOf(a writers.Result, duplicate bool) PutResult {
	return PutResult{FirstAcqNs: a.FirstNs, LastAcqNs: a.UntilNs() - 1,
		Records: int(a.Records), Duplicate: duplicate}
}

// WriterSeq identifies a batch for exactly-once puts. The zero ID asks for no protection.
type WriterSeq = writers.Seq

// putRequest is one batch on its way; done is closed after result or err is set: by the
// committer, or by put when it could not be queued.
type putRequest struct {
	writer  WriterSeq
	byShard []shardRows
	buffers *putBuffers // where its rows and entries are; nil: elsewhere
	rows    int
	bytes   int64
	done    chan struct{}
	result  writers.Result
	err     error
}

// shardRows is the rows of a batch that belong to one shard, in the order of the batch: in rows, or
// where these are empty in divided, with the acqs from firstNs on.
type shardRows struct {
	shard   int
	rows    record.Batch
	divided []headShardRows // the rows by head shard; empty where they are in rows for the only one
	firstNs int64
	entry   []byte // for the log, of a put
}

// Put stores a batch: on return it is durable and every query that starts later sees all of it.
// The batch stays the caller's. A batch whose writer and sequence were stored before, or are
// being stored, gets the first result and stores nothing.
//
// Names and descriptions of devices are checked, see CheckDescribing and CheckUnclaimed.
//
// Errors: ErrReplicated; ErrIsCopy; *record.InvalidError; ErrClosed; ErrOverloaded; ErrConflict;
// writers.ErrTooOld; writers.ErrTooMany; durable.ErrNoSpace until there is space again; ErrFailed
// and wal.ErrFailed until the store is opened again.
// When ctx ends early the batch may or may not be stored: retry with the same sequence.
func (s *Store) Put(ctx context.Context, b *record.Batch, w WriterSeq) (PutResult, error) {
	return s.put(ctx, b, w, nil, nil)
}

// PutAfter is Put of a batch that follows another one of its writer, or none for 0: unless that is
// the newest one here, nothing is stored. A store that was put back from an older copy tells so how
// much of the writer it has. One batch of a writer is put so at a time.
//
// Errors: *writers.GapError; ErrOverloaded while another batch of the writer is in flight.
func (s *Store) PutAfter(
	ctx context.Context, b *record.Batch, w WriterSeq, previous uint64,
) (PutResult, error) {
	return s.put(ctx, b, w, &previous, nil)
}

// Follows returns nil when a batch with this sequence is the newest one of a writer, or 0 when the
// store does not know the writer; it stores nothing.
//
// Errors: ErrReplicated; ErrClosed; *writers.GapError.
func (s *Store) Follows(writer record.Writer, previous uint64) error {
	if err := s.refuseReplicated(); err != nil {
		return err
	}
	if s.closed.Load() {
		return ErrClosed
	}
	return s.writers.Follows(writer, previous)
}

func (s *Store) put(
	ctx context.Context, b *record.Batch, w WriterSeq, previous *uint64, newestNs *int64,
) (PutResult, error) {
	if err := s.refuseReplicated(); err != nil {
		return PutResult{}, err
	}
	if err := b.Validate(); err != nil {
		return PutResult{}, err
	}
	// What a persistent writer ships another node has checked, and the writer must not get stuck.
	describing := !w.Persistent && Describes(b)
	if describing {
		if err := CheckDescribing(b); err != nil {
			return PutResult{}, err
		}
	}
	r := &putRequest{writer: w, rows: b.Len(), done: make(chan struct{})}
	r.bytes = int64(len(b.Data)) + int64(r.rows)*rowOverheadBytes
	for w.ID != ([16]byte{}) {
		known, other, err := s.writers.Admit(w, previous, r)
		if errors.Is(err, writers.ErrInFlight) {
			err = fmt.Errorf("%w: %w", err, ErrOverloaded)
		}
		if err != nil {
			return PutResult{}, err
		}
		if known != nil {
			return resultOf(*known, true), nil
		}
		if other == nil {
			break
		}
		res, err := s.wait(ctx, other, true)
		gaveUp := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		if !gaveUp || ctx.Err() != nil {
			return res, err
		}
		// It was the other's context that ended, before its batch was queued.
	}
	if describing {
		return s.putDescribing(ctx, b, r, newestNs)
	}
	if err := s.enqueue(ctx, b, r); err != nil {
		return PutResult{}, s.giveUp(r, err)
	}
	return s.wait(ctx, r, false)
}

// giveUp answers a request that could not be queued, and returns the error.
func (s *Store) giveUp(r *putRequest, err error) error {
	s.writers.Abandon(r.writer)
	r.fail(err)
	return err
}

// wait waits for the answer to a request. One that was queued beside Close may have come too late
// for the committer, and gets none.
func (s *Store) wait(ctx context.Context, r *putRequest, duplicate bool) (PutResult, error) {
	select {
	case <-r.done:
	case <-s.drained:
		select {
		case <-r.done:
		default:
			return PutResult{}, ErrClosed
		}
	case <-ctx.Done():
		return PutResult{}, ctx.Err()
	}
	if r.err != nil {
		return PutResult{}, r.err
	}
	return resultOf(r.result, duplicate), nil
}

func (s *Store) enqueue(ctx context.Context, b *record.Batch, r *putRequest) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := s.headBudget.Wait(ctx, r.bytes); err != nil {
		return err
	}
	s.prepare(r, b)
	select {
	case s.puts <- r:
		return nil
	case <-s.stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// splitByShard copies the rows of a batch, apart for each shard that has any.
func splitByShard(b *record.Batch, shards int) []shardRows {
	n := b.Len()
	owner := make([]uint16, n)
	counts := make([]int, shards)
	shard := 0
	for i := range n {
		if shards > 1 && (i == 0 || b.CID[i] != b.CID[i-1] ||
			b.MID[i]>>slots.DeviceRangeBits != b.MID[i-1]>>slots.DeviceRangeBits) {
			shard = layout.ShardOf(b.CID[i], b.MID[i], shards)
		}
		owner[i] = uint16(shard)
		counts[shard]++
	}
	byShard := make([]shardRows, 0, shards)
	at := make([]int, shards) // shard -> its place in byShard
	for sh, count := range counts {
		if count == 0 {
			continue
		}
		at[sh] = len(byShard)
		byShard = append(byShard, shardRows{shard: sh, rows: record.Batch{
			CID: make([]int32, 0, count), MID: make([]int64, 0, count),
			MOID: make([]int32, 0, count), CapNs: make([]int64, 0, count),
			AcqNs: make([]int64, count), Data: make([]byte, 0, share(len(b.Data), count, n)),
		}})
	}
	for from, to := 0, 0; from < n; from = to {
		for to = from + 1; to < n && owner[to] == owner[from]; to++ {
		}
		byShard[at[owner[from]]].rows.AppendRows(b, from, to)
	}
	return byShard
}

// share returns the part of bytes that some of n rows have on average; the product may exceed an
// int of 32 bits.
func share(bytes, some, n int) int { return int(int64(bytes) * int64(some) / int64(n)) }

// commitLoop commits puts. Only the committer assigns acqs, inserts into heads and writes the log,
// but for the end that Close writes: this goroutine or, for a while, one that called onCommitter.
// The loop holds committerLock when it begins and keeps it when it ends, so that then no goroutine
// becomes the committer any more.
func (s *Store) commitLoop() {
	defer close(s.drained)
	s.sealHeadsOfReplay()
	s.resumePurges()
	<-s.committerLock
	var buf commitBuffers
	for {
		select {
		case r := <-s.puts:
			s.committerLock <- struct{}{}
			s.commit(&buf, s.gather(r))
			<-s.committerLock
		case <-s.stop:
			s.committerLock <- struct{}{}
			s.drain(&buf)
			return
		}
	}
}

// drain answers what was queued before stop.
func (s *Store) drain(buf *commitBuffers) {
	for {
		select {
		case r := <-s.puts:
			s.commit(buf, s.gather(r))
		default:
			return
		}
	}
}

// gather takes what else is waiting, so that one sync serves all.
func (s *Store) gather(first *putRequest) []*putRequest {
	writeGroup, bytes := []*putRequest{first}, first.bytes
	for bytes < maxWriteGroupBytes {
		select {
		case r := <-s.puts:
			writeGroup = append(writeGroup, r)
			bytes += r.bytes
		default:
			return writeGroup
		}
	}
	return writeGroup
}

// commitBuffers is memory that one commit hands to the next.
type commitBuffers struct {
	entries []wal.Entry
	data    []byte
}

func (s *Store) commit(buf *commitBuffers, writeGroup []*putRequest) {
	buf.entries = buf.entries[:0]
	if s.failed.Err() != nil {
		s.refuse(writeGroup, nil, s.failed.Err())
		return
	}
	if s.oracle.IsCopy() {
		s.refuse(writeGroup, nil, ErrIsCopy)
		return
	}
	for _, r := range writeGroup {
		s.stamp(r)
		for i := range r.byShard {
			e := s.shards[r.byShard[i].shard].NextEntry()
			e.Data = r.byShard[i].entry
			buf.entries = append(buf.entries, e)
		}
	}
	rows := 0
	for _, r := range writeGroup {
		rows += r.rows
	}
	file, err := s.appendAndInsert(writeGroup, rows, buf.entries)
	s.counters.logAppends.Add(1)
	if err != nil {
		s.refuse(writeGroup, buf.entries, fmt.Errorf("commit: %w", err))
		return
	}
	s.recordLogFile(file, buf.entries)
	s.oracle.EndCommit()
	notifyFeeds(s.feeds, writeGroup)
	for _, r := range writeGroup {
		if r.writer.ID != ([16]byte{}) {
			s.writers.Record(r.writer, r.result)
		}
		s.counters.rows.Add(int64(r.rows))
		r.giveBack()
		close(r.done)
	}
	clear(buf.entries)
	s.rotateFull()
	s.throttle.Wait(rows, s.stop)
}

// appendAndInsert makes an append to the log, and fills the heads with a write group, while the log
// is synced if it has many rows. They are not visible yet. After an error of that sync the heads
// have rows that may not be durable: they stay above the horizon, and are not sealed.
func (s *Store) appendAndInsert(
	writeGroup []*putRequest, rows int, entries []wal.Entry,
) (file uint64, err error) {
	began := time.Now()
	if file, err = s.writeLog(entries); err != nil {
		return 0, err
	}
	var inserting sync.WaitGroup
	sideBySide := rows >= s.opt.sideBySideRows
	if sideBySide {
		inserting.Go(func() { s.insert(writeGroup) })
	}
	err = s.log.Sync()
	s.counters.logNs.Add(int64(time.Since(began)))
	inserting.Wait()
	switch {
	case err == nil && !sideBySide:
		s.insert(writeGroup)
	case err != nil && sideBySide:
		s.headsUnsynced = true
	}
	return file, err
}

// refuse answers a write group that the log did not take. Unless there was only no space for it,
// whether its rows are on disk is unknown, and the log takes no more: no answer may be kept, and
// the horizon stays below this write group for good. No segment may say that it covers the LSNs of
// the rows.
func (s *Store) refuse(writeGroup []*putRequest, entries []wal.Entry, err error) {
	for i := range entries {
		s.allShards[entries[i].Shard].LastLSN--
	}
	if errors.Is(err, durable.ErrNoSpace) {
		s.oracle.Cancel()
	}
	for _, r := range writeGroup {
		s.writers.Abandon(r.writer)
		r.giveBack()
		r.fail(err)
	}
}

func (r *putRequest) fail(err error) {
	r.err = err
	close(r.done)
}

// stamp gives the rows of a batch consecutive acqs, shard by shard.
func (s *Store) stamp(r *putRequest) {
	r.result = writers.Result{Seq: r.writer.Seq, FirstNs: s.oracle.Reserve(r.rows),
		Records: uint32(r.rows)}
	acq := r.result.FirstNs
	for i := range r.byShard {
		p := &r.byShard[i]
		p.firstNs = acq
		segment.StampRowsEntry(p.entry, acq, r.result.FirstNs)
		for k := range p.rows.AcqNs {
			p.rows.AcqNs[k] = acq + int64(k)
		}
		acq += int64(p.count())
	}
}

// appendLog makes an append to the log of a stand-alone store, after the manifest has the timeline
// that it belongs to. The caller is the committer, or Close.
func (s *Store) appendLog(entries []wal.Entry) (file uint64, err error) {
	if file, err = s.writeLog(entries); err == nil {
		err = s.log.Sync()
	}
	return file, err
}

// writeLog is appendLog, but for the sync.
func (s *Store) writeLog(entries []wal.Entry) (file uint64, err error) {
	if !s.timelineDurable {
		s.manifestMu.Lock()
		err = s.beginLogging()
		s.manifestMu.Unlock()
	}
	if err != nil {
		return 0, s.log.NoteNoSpace(err, 0)
	}
	return s.log.Write(entries)
}

// beginLogging makes the timeline of this process durable, if it is not yet. The caller is the
// committer, or Close, and holds manifestMu.
func (s *Store) beginLogging() error {
	if s.manifest.BeginsTimeline() {
		if err := s.manifest.Append(manifest.Edit{}); err != nil {
			return fmt.Errorf("begin a timeline: %w", err)
		}
	}
	s.timelineDurable = true
	return nil
}
