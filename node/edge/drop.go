package edge

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/record"
)

// dropShare: the oldest are dropped a sixteenth of the quota at once, as each time takes syncs, and
// an event of the store.
const dropShare = 16

// resume does what a crash has left undone, and counts what waits.
func (e *Edge) resume(ctx context.Context) error {
	if err := e.settle(ctx); err != nil {
		return err
	}
	return e.count(ctx, e.outbox.now())
}

// count counts what waits at the start, but for what is sent again.
func (e *Edge) count(ctx context.Context, s state) error {
	size := int64(0)
	if s.InFlight != nil && !s.InFlight.Again {
		size = s.InFlight.Bytes
	}
	closed, err := e.Changes(ctx, everything(), max(s.NextNs, s.SentNs), false,
		func(slice *store.Slice) error {
			size += sizeOf(&slice.Rows)
			return nil
		})
	if err != nil {
		return fmt.Errorf("count what waits to be shipped: %w", err)
	}
	e.meter.start(size, closed-1)
	close(e.meter.counted)
	return nil
}

// settle carries out what the outbox says, so that the next batch can begin. The caller holds
// moving, but at the start.
func (e *Edge) settle(ctx context.Context) error {
	if e.outbox.now().Drop != nil {
		if err := e.carryOut(ctx); err != nil {
			return err
		}
	}
	hide := e.outbox.now().Hide
	if len(hide) == 0 {
		return nil
	}
	var acqs record.RangeSet
	for _, s := range hide {
		acqs = append(acqs, record.Range{From: s.FromNs, To: s.ToNs})
	}
	err := e.Forget(ctx, acqs)
	if errors.Is(err, manifest.ErrTooManyEvents) { // shipping must go on
		e.log.Error("what was dropped stays on the disk, and older gap records are shipped, too: "+
			"begin with a new directory when all is shipped", "err", err)
	} else if err != nil {
		return fmt.Errorf("remove what was dropped: %w", err)
	}
	return e.outbox.change(true, func(s *state) error {
		s.Hide = nil
		return nil
	})
}

// dropOldest drops the oldest records that were not sent, and puts gap records in their place. A
// gap record tells all that was dropped of its device: the one before it goes.
func (e *Edge) dropOldest(ctx context.Context, size int64) error {
	e.moving.Lock()
	defer e.moving.Unlock()
	ctx = context.WithoutCancel(ctx) // what is begun is carried out
	if err := e.settle(ctx); err != nil {
		return err
	}
	over := e.meter.waiting() + size - e.opt.Quota
	if over <= 0 {
		return nil // someone else has made space
	}
	drop, err := e.oldest(ctx, over+e.opt.Quota/dropShare)
	if err != nil {
		return err
	}
	if drop.Records == 0 {
		return e.full(size) // all that waits are gap records, and what may have been sent
	}
	err = e.outbox.change(false, func(s *state) error {
		s.Drop = &drop
		return nil
	})
	if err != nil {
		return err
	}
	return e.settle(ctx)
}

// oldest returns the oldest records that may be dropped, of this many bytes beside gap records.
func (e *Edge) oldest(ctx context.Context, target int64) (batch, error) {
	s := e.outbox.now()
	next := max(s.NextNs, s.SentNs)
	drop, lost := batch{FromNs: next, ToNs: next}, int64(0)
	_, err := e.Changes(ctx, everything(), next, false, func(slice *store.Slice) error {
		for i := range slice.Rows.Len() {
			acq := slice.Rows.AcqNs[i]
			if lost >= target && acq >= drop.ToNs {
				return errStop
			}
			size := sizeOfRow(&slice.Rows, i)
			if _, gap := ParseGap(slice.Rows.Record(i)); !gap {
				lost += size
			}
			drop.Records, drop.Bytes, drop.ToNs = drop.Records+1, drop.Bytes+size, acq+1
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return drop, fmt.Errorf("look for the oldest records: %w", err)
	}
	if lost == 0 { // gap records alone: to write them again makes no space
		drop.Records = 0
	}
	return drop, nil
}

// carryOut drops what the outbox says. It may be done twice: the gap records are the same.
func (e *Edge) carryOut(ctx context.Context) error {
	s := e.outbox.now()
	gone := []span{{s.Drop.FromNs, s.Drop.ToNs}}
	for _, g := range s.Gaps {
		if g.FromNs = max(g.FromNs, s.Drop.ToNs); g.FromNs < g.ToNs {
			gone = append(gone, g)
		}
	}
	found := gaps{}
	var lost tally
	size := int64(0)
	for _, g := range gone {
		err := e.readRange(ctx, g.FromNs, g.ToNs, func(b *record.Batch, rows int) error {
			more := found.add(b, rows)
			lost.add(int(more.Records), more.Bytes)
			for i := range rows {
				size += sizeOfRow(b, i)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read what is to be dropped: %w", err)
		}
	}
	added, err := e.putGaps(ctx, found, s.Drops)
	if err != nil {
		return fmt.Errorf("note what is dropped: %w", err)
	}
	err = e.outbox.change(false, func(s *state) error {
		if s.NextNs < s.SentNs { // what is sent again comes before
			s.SentNs = s.Drop.ToNs
		} else {
			s.NextNs = s.Drop.ToNs
		}
		s.Drop, s.Gaps, s.Hide = nil, added, gone
		s.Drops++
		s.Dropped.add(int(lost.Records), lost.Bytes)
		s.DropNs = time.Now().UnixNano()
		return nil
	})
	if err != nil {
		return err
	}
	e.meter.free(size)
	e.log.Warn("dropped records that were never shipped, as the quota is full", "count",
		lost.Records)
	return nil
}

// putGaps puts gap records, once for each number of a drop, and returns where they are. Each batch
// has a writer of its own, as of a persistent one the store knows the newest batch alone.
func (e *Edge) putGaps(ctx context.Context, found gaps, number uint64) (at []span, err error) {
	for i, b := range found.batches(hex.EncodeToString(e.outbox.writer.ID[:])) {
		w := store.WriterSeq{ID: e.outbox.writer.ID, Seq: number<<16 + 1, Persistent: true}
		w.ID[len(w.ID)-1] ^= 1 // so it is not the one that upstream knows
		w.ID[len(w.ID)-2] ^= byte(i)
		w.ID[len(w.ID)-3] ^= byte(i >> 8)
		res, err := e.PutOwn(ctx, b, w)
		if err != nil {
			return nil, err
		}
		if !res.Duplicate {
			e.meter.add(sizeOf(b), res.LastAcqNs)
		}
		at = append(at, span{res.FirstAcqNs, res.LastAcqNs + 1})
	}
	return at, nil
}

// everything returns the query for all records: an edge ships descriptions of devices, too.
func everything() *record.Query { return &record.Query{Box: record.Everything()} }
