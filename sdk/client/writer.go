package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// WriterOptions of a writer. The zero value works.
type WriterOptions struct {
	BatchRecords int           // records of a batch; default 10,000, which amortise a sync
	BatchBytes   int           // payload bytes of a batch; default 8 MiB
	PendingBytes int           // encoded batches that wait, before Add blocks; default 64 MiB
	RetryFor     time.Duration // how long a batch is retried; default 1 min
	// ID is who the writer is to the node; default: random. A writer that adds the same records as
	// an earlier one with its ID, with the same bounds of a batch, stores only what that one did
	// not, for as long as the node remembers it: seven days. Other records must have another ID.
	ID [16]byte
}

func (o WriterOptions) withDefaults() WriterOptions {
	o.BatchRecords = cmp.Or(o.BatchRecords, 10_000)
	o.BatchBytes = cmp.Or(o.BatchBytes, 8<<20)
	o.PendingBytes = cmp.Or(o.PendingBytes, 64<<20)
	o.RetryFor = cmp.Or(o.RetryFor, defaultRetryFor)
	o.BatchRecords = min(o.BatchRecords, record.MaxBatchRecords)
	o.BatchBytes = min(o.BatchBytes, record.MaxBatchBytes-record.MaxPayloadBytes)
	return o
}

// BatchError says which batch could not be stored. It and everything after it is not stored by
// this writer.
type BatchError struct {
	Seq     uint64
	Records int
	Err     error
}

// Error implements error.
func (e *BatchError) Error() string {
	return fmt.Sprintf("batch %d of %d records: %v", e.Seq, e.Records, e.Err)
}

// Unwrap returns the cause.
func (e *BatchError) Unwrap() error { return e.Err }

// WriterStats are counts since the writer was made.
type WriterStats struct {
	Records    int64 // records acknowledged
	Batches    int64 // batches acknowledged
	Retries    int64 // requests repeated
	Duplicates int64 // batches that a retry, or a writer with the same ID, found stored
	Known      int64 // records of these batches
	// FirstAcqNs and LastAcqNs are the least and the greatest acq of acknowledged records, those of
	// duplicates included as long as the node remembers them; 0: none is known.
	FirstAcqNs, LastAcqNs int64
}

// add counts an acknowledged batch.
func (s *WriterStats) add(records int, reply *wire.PutReply) {
	s.Batches++
	s.Records += int64(records)
	if reply.Duplicate {
		s.Duplicates++
		s.Known += int64(records)
	}
	if reply.LastAcqNs == 0 {
		return
	}
	if s.LastAcqNs == 0 {
		s.FirstAcqNs = reply.FirstAcqNs
	}
	s.FirstAcqNs = min(s.FirstAcqNs, reply.FirstAcqNs)
	s.LastAcqNs = max(s.LastAcqNs, reply.LastAcqNs)
}

// Writer gathers records into batches and stores them in the order in which they were added. A
// batch is sent again with the same sequence until it is answered, so that nothing is stored twice.
// Its methods may be called from many goroutines.
//
// Goroutines: one sends; Close ends it.
type Writer struct {
	client *Client
	opt    WriterOptions
	id     [16]byte
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards all below.
	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something below changes
	batch   *record.Batch
	queue   []sealedBatch
	pending int    // bytes of queue, and of the batch being sent
	seq     uint64 // of the newest sealed batch
	acked   uint64 // all batches up to here are durable
	closed  bool
	err     error
	stats   WriterStats
}

type sealedBatch struct {
	seq     uint64
	records int
	body    []byte
}

// ErrWriterClosed is returned by calls after Close.
var ErrWriterClosed = errors.New("writer is closed")

// NewWriter returns a writer with an identity of its own. Close it.
func (c *Client) NewWriter(opt WriterOptions) *Writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writer{client: c, opt: opt.withDefaults(), id: opt.ID, cancel: cancel,
		changed: make(chan struct{}), batch: new(record.Batch)}
	if w.id == [16]byte{} {
		if _, err := rand.Read(w.id[:]); err != nil {
			panic("BUG: no randomness: " + err.Error())
		}
	}
	w.wg.Go(func() { w.send(ctx) })
	return w
}

// notify wakes whoever waits for a change. The caller holds mu.
func (w *Writer) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// wait waits until done, called with mu held, says so.
func (w *Writer) wait(ctx context.Context, done func() (bool, error)) error {
	w.mu.Lock()
	for {
		ok, err := done()
		if ok || err != nil {
			w.mu.Unlock()
			return err
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		w.mu.Lock()
	}
}

// Add adds a record, copying the payload. It blocks while too many bytes wait to be sent.
//
// Errors: *record.InvalidError for this record, which is then left out; *BatchError when an
// earlier batch failed for good; ErrWriterClosed; ctx.Err().
func (w *Writer) Add(ctx context.Context, k record.Key, payload []byte) error {
	return w.AddRecord(ctx, record.Record{Key: k, Payload: payload})
}

// Delete adds a tombstone: the reading is there no more, until a record of it is added later.
// Errors are those of Add.
func (w *Writer) Delete(ctx context.Context, k record.Key) error {
	return w.AddRecord(ctx, record.Record{Key: k, Tomb: true})
}

// AddRecord adds a record or a tombstone, whose payload is left aside.
func (w *Writer) AddRecord(ctx context.Context, r record.Record) error {
	one := record.Batch{CID: []int32{r.CID}, MID: []int64{r.MID}, MOID: []int32{r.MOID},
		CapNs: []int64{r.CapNs}, Stride: len(r.Payload), Data: r.Payload}
	if err := one.Validate(); err != nil {
		return err
	}
	if err := w.addNow(r); !errors.Is(err, errFull) {
		return err
	}
	err := w.wait(ctx, func() (bool, error) {
		return w.pending < w.opt.PendingBytes || w.closed, w.err
	})
	if err != nil {
		return err
	}
	return w.AddRecord(ctx, r)
}

var errFull = errors.New("too many bytes are pending")

func (w *Writer) addNow(r record.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return ErrWriterClosed
	case w.pending >= w.opt.PendingBytes:
		return errFull
	}
	w.batch.AppendRecord(r)
	if w.batch.Len() >= w.opt.BatchRecords || len(w.batch.Data) >= w.opt.BatchBytes {
		return w.seal()
	}
	return nil
}

// seal encodes the batch and queues it. The caller holds mu.
func (w *Writer) seal() error {
	if w.batch.Len() == 0 {
		return nil
	}
	w.seq++
	body, err := wire.AppendPut(nil, &wire.Put{Writer: w.id, Seq: w.seq, Batch: w.batch})
	if err != nil {
		w.err = &BatchError{w.seq, w.batch.Len(), err}
		return w.err
	}
	w.queue = append(w.queue, sealedBatch{w.seq, w.batch.Len(), body})
	w.pending += len(body)
	w.batch.Reset()
	w.notify()
	return nil
}

// Flush sends what was added before the call and returns nil only when all of it is durable.
//
// Errors: *BatchError; ErrWriterClosed; ctx.Err(), after which the writer goes on trying.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	if w.closed && w.err == nil && w.acked < w.seq {
		w.mu.Unlock()
		return ErrWriterClosed
	}
	if w.err == nil {
		_ = w.seal() // its error is w.err
	}
	last := w.seq
	w.mu.Unlock()
	return w.wait(ctx, func() (bool, error) { return w.acked >= last, w.err })
}

// Close flushes, ends the goroutine and makes further calls fail. When ctx ends first, what is not
// yet durable is given up.
func (w *Writer) Close(ctx context.Context) error {
	err := w.Flush(ctx)
	w.mu.Lock()
	w.closed = true
	w.notify()
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
	return err
}

// Abort ends the goroutine and makes further calls fail. What is not yet durable is given up, and
// no batch is sent that records could still have been added to.
func (w *Writer) Abort() {
	w.mu.Lock()
	w.closed, w.queue = true, nil
	w.batch.Reset()
	w.notify()
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
}

// Stats returns the present counts.
func (w *Writer) Stats() WriterStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// send stores the queued batches one after another, so that versions keep their order.
func (w *Writer) send(ctx context.Context) {
	for {
		var next sealedBatch
		err := w.wait(ctx, func() (bool, error) {
			if len(w.queue) == 0 {
				return false, nil
			}
			next = w.queue[0]
			w.queue = w.queue[1:]
			return true, nil
		})
		if err != nil {
			return
		}
		reply, err := w.store(ctx, next)
		w.mu.Lock()
		w.pending -= len(next.body)
		if err != nil {
			w.err = &BatchError{next.seq, next.records, err}
		} else {
			w.acked = next.seq
			w.stats.add(next.records, &reply)
		}
		w.notify()
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

const (
	firstBackoff = 20 * time.Millisecond
	maxBackoff   = 2 * time.Second
	// defaultRetryFor is longer than a node needs to start and a group to find a leader.
	defaultRetryFor = time.Minute
)

// store sends a batch until it is answered, refused for good, or was retried for too long.
func (w *Writer) store(ctx context.Context, b sealedBatch) (wire.PutReply, error) {
	deadline := time.Now().Add(w.opt.RetryFor)
	reply, err := w.client.putUntil(ctx, "/v1/put", b.body, deadline, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stats.Retries++
	})
	var remote *wire.Error
	switch {
	case err == nil:
	case errors.As(err, &remote) && remote.Kind == wire.KindSequenceTooOld:
		// Writers send in order: a newer batch left only when this one was acknowledged.
		return wire.PutReply{Duplicate: true}, nil
	case ctx.Err() != nil:
		return reply, givenUp(err)
	}
	return reply, err
}

// givenUp says that Close ended the attempts, the last of which failed with err.
func givenUp(err error) error {
	return fmt.Errorf("%w before this was durable: %w", ErrWriterClosed, err)
}
