package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// reader is what a follower of a tenant has seen.
type reader struct {
	s        *Soak
	t        *tenant
	records  int64
	lastNs   int64 // acq of the last record
	closedNs int64
	latest   time.Duration // the most by which a record was late
}

// take looks at what came.
func (r *reader) take(b client.ChangeBatch) error {
	if b.Rows != nil {
		for i := range b.Rows.Len() {
			k := b.Rows.Key(i)
			if k.CID != r.t.cid || k.AcqNs <= r.lastNs || k.AcqNs < r.closedNs {
				return fmt.Errorf("a follower of tenant %d got %+v after acq %d, closed below %d",
					r.t.cid, k, r.lastNs, r.closedNs)
			}
			r.lastNs = k.AcqNs
		}
		if n := b.Rows.Len(); n > 0 {
			r.records += int64(n)
			r.latest = max(r.latest, time.Since(time.Unix(0, b.Rows.AcqNs[0])))
		}
	}
	r.closedNs = b.ClosedNs
	return nil
}

// rest reads what was acknowledged before, and compares how much all was.
func (r *reader) rest(ctx context.Context, db *client.Client) error {
	r.t.mu.Lock()
	want, lastNs := r.t.records, r.t.lastNs
	r.t.mu.Unlock()
	for r.closedNs <= lastNs {
		q := &record.Query{Box: boxOf(r.t.cid)}
		for b, err := range db.PastChanges(ctx, q, r.closedNs) {
			if later, refused := advice(err); later > 0 {
				wait(ctx.Done(), later)
				break
			} else if refused != nil {
				return refused
			}
			if err := r.take(b); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if r.latest >= r.s.opt.Age || r.t.cid == purgedTenant {
		r.s.unsure.Add(1) // some may have expired before they were read
		return nil
	}
	if r.records != want {
		return fmt.Errorf("a follower of tenant %d got %d records of %d", r.t.cid, r.records, want)
	}
	r.s.checked.Add(1)
	return nil
}

// read follows over one connection, or over others where that breaks, until ctx ends.
func (r *reader) read(ctx context.Context, db *client.Client, each func()) error {
	for b, err := range db.ChangeBatches(ctx, &record.Query{Box: boxOf(r.t.cid)}, r.closedNs) {
		if err != nil {
			return err
		}
		if err := r.take(b); err != nil {
			return err
		}
		each()
	}
	return nil
}

// forAWhile returns a context that also ends after a time, and when no new step is begun.
func (s *Soak) forAWhile(
	ctx context.Context, lasts time.Duration,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-s.stopped:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		wg.Wait()
	}
}

// follow reads all that comes to a tenant, over one connection as long as it holds.
func (s *Soak) follow(t *tenant) begin {
	return func(w *worker) (step, end act) {
		r := &reader{s: s, t: t}
		return func(ctx context.Context) error {
				while, cancel := s.forAWhile(ctx, time.Hour)
				defer cancel()
				return r.read(while, w.db, func() { w.steps.Add(1) })
			}, func(ctx context.Context) error {
				return r.rest(ctx, w.db)
			}
	}
}

// followByCursor reads for a while, commits a cursor, leaves, and goes on from it.
func (s *Soak) followByCursor(t *tenant) begin {
	return func(w *worker) (step, end act) {
		r := &reader{s: s, t: t}
		name, lasts := fmt.Sprintf("soak-%d", t.cid), time.Second
		if s.hurry() {
			lasts /= 10
		}
		return func(ctx context.Context) error {
				while, cancel := s.forAWhile(ctx, time.Duration(w.random.Int64N(int64(2*lasts))))
				defer cancel()
				if err := r.read(while, w.db, func() {}); err != nil || r.closedNs == 0 {
					return err
				}
				if _, err := w.db.CommitCursor(ctx, name, r.closedNs, false); err != nil {
					return err
				}
				c, err := w.db.Cursor(ctx, name)
				if err == nil && c.AcqNs != r.closedNs {
					err = fmt.Errorf("cursor %s is at %d, want %d", name, c.AcqNs, r.closedNs)
				}
				wait(s.stopped, time.Duration(w.random.Int64N(int64(lasts))))
				return err
			}, func(ctx context.Context) error {
				if err := r.rest(ctx, w.db); err != nil {
					return err
				}
				_, err := w.db.CommitCursor(ctx, name, r.closedNs, false)
				return errors.Join(err, w.db.RemoveCursor(ctx, name))
			}
	}
}

// stall asks over several connections, reads a little, stops reading for some time, and leaves.
func (s *Soak) stall(lasts time.Duration) begin {
	return func(w *worker) (step, end act) {
		return func(ctx context.Context) error {
			for _, path := range []string{"/v1/changes?follow=1&cid=11", "/v1/records?cid=12",
				"/v1/records?cid=13&order=acq", "/v1/changes?follow=1&cid=13&since=now"} {
				c, err := s.begin(ctx, path)
				if err != nil {
					return err
				}
				defer c.Close()
			}
			wait(s.stopped, lasts/2+time.Duration(w.random.Int64N(int64(lasts))))
			return nil
		}, nil
	}
}

// begin asks and reads a little of the answer.
func (s *Soak) begin(ctx context.Context, path string) (io.Closer, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.host())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // so that Read ends
	defer stop()
	if _, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, s.host()); err == nil {
		_, err = c.Read(make([]byte, 512))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), c.Close())
	}
	return c, nil
}

// visit lets followers come, which leave before much is said.
func (s *Soak) visit(w *worker) (step, end act) {
	return func(ctx context.Context) error {
		for range 1 + w.random.IntN(8) {
			path := fmt.Sprintf("/v1/changes?follow=1&cid=%d&mid=%d&since=now",
				s.anyTenant(w), w.random.IntN(loadDevices))
			c, err := s.begin(ctx, path)
			if err != nil {
				return err
			}
			defer c.Close()
		}
		wait(s.stopped, time.Duration(w.random.Int64N(int64(time.Second))))
		return nil
	}, nil
}

func (s *Soak) anyTenant(w *worker) int32 { return firstLoad + w.random.Int32N(loadTenants) }

// erases hides and removes devices of one tenant, whose records are not counted.
func (s *Soak) erases(w *worker) (step, end act) {
	return func(ctx context.Context) error {
		box := boxOf(purgedTenant)
		box[record.MID] = record.RangeSet{record.At(w.random.Int64N(loadDevices))}
		if w.random.IntN(2) == 0 {
			_, err := w.db.Erase(ctx, &wire.Box{Box: box})
			return err
		}
		_, err := w.db.Purge(ctx, &wire.Box{Box: box})
		return err
	}, nil
}

const purgedTenant = firstLoad + loadTenants - 1
