package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/sdk/record"
)

// feed puts the batches of a stream, one after the other. One goroutine uses it.
type feed struct {
	db     system.System
	stream workload.Stream

	batches int           // put so far
	records int64         // in these
	made    time.Duration // how long it took to make them
	puts    []float64     // how long each took, in us
	behind  time.Duration // how late the latest batch of a steady feed was
}

// next puts a batch, not before due, and reports whether there was one.
func (f *feed) next(ctx context.Context, b *record.Batch, due time.Time) (bool, error) {
	began := time.Now()
	if !f.stream.Next(b) {
		return false, f.stream.Err()
	}
	for i := range b.AcqNs {
		b.AcqNs[i] += int64(i)
	}
	f.made += time.Since(began)
	if !due.IsZero() {
		if err := until(ctx, due); err != nil {
			return false, err
		}
		f.behind = max(f.behind, time.Since(due))
	}
	began = time.Now()
	// A batch is put or not: an end in between would leave it open what is stored.
	if err := f.db.Put(context.WithoutCancel(ctx), b); err != nil {
		return false, fmt.Errorf("put: %w", err)
	}
	f.puts = append(f.puts, us(time.Since(began)))
	f.batches++
	f.records += int64(b.Len())
	return true, nil
}

// until waits for a moment.
func until(ctx context.Context, moment time.Time) error {
	wait := time.NewTimer(time.Until(moment))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// speed is how fast a feed was taken, in M records/s, without the time to make it, and the memory
// of this process meanwhile.
type speed struct {
	acked   float64
	settled float64 // until all was sealed and merged
	peakMiB float64
	ownMiB  float64 // the same without mapped files
}

func (s speed) String() string {
	return fmt.Sprintf("%.3f M records/s acknowledged, %.3f until all was sealed and merged, "+
		"memory at most %.0f MiB, %.0f without mapped files", s.acked, s.settled, s.peakMiB,
		s.ownMiB)
}

// all puts what is left as fast as it goes and settles it.
func (f *feed) all(ctx context.Context) (s speed, err error) {
	var b record.Batch
	process.ResetPeak()
	own := sync.OnceValue(process.WatchOwn())
	defer own()
	began := time.Now()
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		if more, err = f.next(ctx, &b, time.Time{}); err != nil {
			return s, err
		}
	}
	s.acked = rate(f.records, time.Since(began)-f.made)
	if err := f.db.Settle(ctx); err != nil {
		return s, fmt.Errorf("settle: %w", err)
	}
	s.settled = rate(f.records, time.Since(began)-f.made)
	s.peakMiB, s.ownMiB = process.PeakMiB(), own()
	return s, nil
}

// steadily puts a batch every interval until the context ends; late ones follow at once.
func (f *feed) steadily(ctx context.Context, interval time.Duration) error {
	var b record.Batch
	for due := time.Now(); ctx.Err() == nil; due = due.Add(interval) {
		more, err := f.next(ctx, &b, due)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		if err != nil {
			return err
		}
		if !more {
			return fmt.Errorf("the workload ended after %d batches", f.batches)
		}
	}
	return nil
}

// String says how the puts went.
func (f *feed) String() string {
	t := report.Summarise(f.puts)
	return fmt.Sprintf("%d batches, put p50 %s p99 %s, at most %s", f.batches,
		report.Duration(t.MedianUs), report.Duration(t.P99Us), report.Duration(t.MaxUs))
}
