package edge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// keyBytes is what a record counts for beside its payload: its five parts.
	keyBytes = 32
	// batchBytes are in one batch, unless a record is larger. A node waits a minute for a request
	// to come whole, and a batch that was sent once is never divided: so a link that has become
	// slow must still carry it, at 17 kB/s.
	batchBytes = 1 << 20
)

var (
	// errMoved means that the next batch begins elsewhere: the oldest records were dropped, or
	// upstream has lost some.
	errMoved = errors.New("the outbox has moved on")
	errStop  = errors.New("enough was read")
)

// ship ships until ctx ends. What fails but at sending is tried again from what the outbox says.
func (e *Edge) ship(ctx context.Context) {
	wait := backOff{most: e.opt.Retry}
	for {
		began := time.Now()
		err := e.shipOn(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > e.opt.Retry { // it went well meanwhile
			wait.next = 0
		}
		if err == nil || errors.Is(err, errMoved) {
			continue
		}
		e.up.note(err, e.log)
		if wait.sleep(ctx, 0, e.up) != nil {
			return
		}
	}
}

// shipOn sends the batch that may have been sent before, and then what comes.
func (e *Edge) shipOn(ctx context.Context) error {
	if s := e.outbox.now(); s.InFlight != nil {
		var rows record.Batch
		if err := e.readBatch(ctx, s.InFlight, &rows); err != nil {
			return err
		}
		e.maybeSent = true
		if err := e.sendBatch(ctx, s.Seq, s.InFlight, &rows); err != nil {
			return err
		}
	}
	if err := e.ask(ctx); err != nil {
		return err
	}
	s := e.outbox.now()
	_, err := e.Changes(ctx, everything(), s.NextNs, true,
		func(slice *store.Slice) error { return e.shipSlice(ctx, s.Drops, slice) })
	return err
}

// shipSlice ships what lies in a slice, batch after batch; drops is how many were done before it
// was read.
func (e *Edge) shipSlice(ctx context.Context, drops uint64, slice *store.Slice) error {
	rows := &slice.Rows
	for from := 0; from < rows.Len(); {
		to, end := e.pace.end(rows, from), slice.ClosedNs
		if to < rows.Len() {
			end = rows.AcqNs[to-1] + 1
		}
		if s := e.outbox.now(); s.NextNs < s.SentNs && rows.AcqNs[to-1] >= s.SentNs {
			for to > from && rows.AcqNs[to-1] >= s.SentNs {
				to-- // what is sent again is in batches of its own
			}
			end = s.SentNs
		}
		var part record.Batch
		part.AppendRows(rows, from, to)
		part.AcqNs = nil
		previous, c, err := e.beginBatch(ctx, drops, end, &part)
		if err != nil {
			return err
		}
		e.maybeSent = false
		if err := e.sendBatch(ctx, previous, c, &part); err != nil {
			return err
		}
		from = to
	}
	e.meter.rested(slice.ClosedNs)
	if err := e.caughtUp(slice.ClosedNs); err != nil {
		return err
	}
	return e.ask(ctx)
}

// beginBatch notes a batch before it is sent, and returns the number of the one that it follows.
func (e *Edge) beginBatch(
	ctx context.Context, drops uint64, toNs int64, b *record.Batch,
) (previous uint64, c *batch, err error) {
	e.moving.Lock()
	defer e.moving.Unlock()
	if err := e.settle(ctx); err != nil { // the disk was full before
		return 0, nil, err
	}
	err = e.outbox.change(false, func(s *state) error {
		if s.Drops != drops {
			return errMoved
		}
		c = &batch{FromNs: s.NextNs, ToNs: toNs, Records: b.Len(), Bytes: sizeOf(b),
			Again: s.NextNs < s.SentNs}
		s.InFlight, s.NextNs, s.SentNs, previous = c, toNs, max(s.SentNs, toNs), s.Seq
		return nil
	})
	return previous, c, err
}

// sendBatch sends a batch until upstream has it.
func (e *Edge) sendBatch(ctx context.Context, previous uint64, c *batch, b *record.Batch) error {
	if b.Len() != c.Records {
		// It is sent all the same: if upstream has the batch, this one is stored nowhere.
		e.up.note(fmt.Errorf("batch %d had %d records when it was begun, the store has %d of them",
			c.number(), c.Records, b.Len()), e.log)
	}
	replayed, newest := int64(0), previous
	if b.Len() > 0 {
		began := time.Now()
		newest = c.number()
		again, err := e.send(ctx, previous, c, b)
		if err != nil {
			return err
		}
		if again {
			replayed = 1
		}
		if err := e.pace.sent(ctx, c, time.Since(began)); err != nil {
			return err
		}
	}
	// Not synced: what comes next says it, and to send the batch again does no harm.
	err := e.outbox.change(true, func(s *state) error {
		s.InFlight, s.Seq = nil, newest
		s.Shipped.add(c.Records, c.Bytes)
		s.Replayed += replayed
		return nil
	})
	if err == nil && !c.Again {
		e.meter.free(c.Bytes)
	}
	return err
}

// readBatch reads the batch that was in flight when the edge was stopped.
func (e *Edge) readBatch(ctx context.Context, c *batch, into *record.Batch) error {
	err := e.readRange(ctx, c.FromNs, c.ToNs, func(b *record.Batch, rows int) error {
		into.AppendRows(b, 0, rows)
		return nil
	})
	into.AcqNs = nil
	if err != nil {
		return fmt.Errorf("read a batch that waits: %w", err)
	}
	return nil
}

// readRange hands on what came in a range of acq, in the order of acq: the first rows of each
// batch.
func (e *Edge) readRange(
	ctx context.Context, fromNs, toNs int64, emit func(b *record.Batch, rows int) error,
) error {
	_, err := e.Changes(ctx, everything(), fromNs, false, func(slice *store.Slice) error {
		rows := slice.Rows.Len()
		for rows > 0 && slice.Rows.AcqNs[rows-1] >= toNs {
			rows--
		}
		if rows > 0 {
			if err := emit(&slice.Rows, rows); err != nil {
				return err
			}
		}
		if slice.ClosedNs >= toNs {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// sizeOf is what a batch counts for.
func sizeOf(b *record.Batch) int64 { return int64(b.Len())*keyBytes + int64(len(b.Data)) }

// sizeOfRow is what a record of a batch counts for.
func sizeOfRow(b *record.Batch, i int) int64 { return keyBytes + int64(len(b.RawPayload(i))) }

// pace says how much is sent at once, and when. It is the shipping goroutine's.
type pace struct {
	most    int   // records of a batch
	rate    int64 // bytes per second, 0: no limit
	records int   // of the next batch at most
	free    time.Time
}

const (
	firstRecords = 1024
	leastRecords = 64
	quick, slow  = time.Second, 5 * time.Second // a batch may take this long for the next to grow
)

// end returns where the batch ends that begins at a row: where it is large enough, between two
// acqs. So what is left after an outage goes in large batches, and what comes now at once.
func (p *pace) end(b *record.Batch, from int) int {
	if p.records == 0 {
		p.records = min(firstRecords, p.most)
	}
	bytes, limit := int64(0), int64(batchBytes)
	if p.rate > 0 {
		limit = min(limit, max(p.rate, 1<<16)) // a second's worth
	}
	to := from
	for to < b.Len() && to-from < p.records && (to == from || bytes+sizeOfRow(b, to) <= limit) {
		bytes += sizeOfRow(b, to)
		to++
	}
	for to < b.Len() && b.AcqNs[to] == b.AcqNs[to-1] {
		to++
	}
	return to
}

// sent notes how long a batch took, and waits until the next may go.
func (p *pace) sent(ctx context.Context, c *batch, took time.Duration) error {
	switch {
	case took > slow:
		p.records = max(min(leastRecords, p.most), p.records/2)
	case took < quick && c.Records >= p.records:
		p.records = min(p.most, 2*p.records)
	}
	if p.rate == 0 {
		return nil
	}
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(min(float64(c.Bytes)/float64(p.rate)*1e9, math.MaxInt32*1e9)))
	return sleep(ctx, time.Until(p.free)-took)
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
