// Package load sends requests at a rate and measures how long their answers take, counted from the
// moment at which each was due: a node that stalls shows, because requests that had to wait for
// it count with their waiting.
//
// It owns schedules, made-up records, boxes to ask for, the timing of replays, and histograms. It
// knows no network, no flags and no terminal: a [Worker] that its caller makes sends. Its main
// type is [Run], whose goroutines end with Do.
package load

import (
	"context"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// Task is one request that is to be made.
type Task struct {
	Index int64
	Timed bool          // DueAt says when; else as soon as a worker is free
	DueAt time.Duration // since the start of the run
	Early bool          // a worker was ready for it before it was due
	Batch *record.Batch // of a replay, owned by the worker of the task; else nil
}

// Source hands out requests to many workers.
type Source interface {
	// Next returns the next request, in order of DueAt, or false when there is none. It returns
	// early when ctx ends.
	Next(ctx context.Context, clock Clock) (Task, bool)
	// Lag returns for how long the next request, which no worker has taken, has been due.
	Lag(elapsed time.Duration) time.Duration
}

// Worker makes one request after another, as one connection does.
type Worker interface {
	// Prepare makes a request ready, before its time has come, and returns its kind.
	Prepare(Task) (kind int)
	// Send sends what was prepared. After an error it may be called again for the same request.
	Send(context.Context) (Answer, error)
}

// Answer is what came of a request.
type Answer struct {
	Records      int64 // that travelled
	Counted      int64 // that the node only counted
	PayloadBytes int64
}

// Verdict says what an error means for a run.
type Verdict struct {
	Name  string        // for counting
	Fatal bool          // all other requests would fail likewise
	After time.Duration // the node's advice when to try again; 0: none
}

// Clock counts from the start of a run.
type Clock struct{ start time.Time }

// StartClock returns a clock that starts now.
func StartClock() Clock { return Clock{time.Now()} }

// Elapsed returns the time since the start.
func (c Clock) Elapsed() time.Duration { return time.Since(c.start) }

// Wait waits until so much time has elapsed since the start.
func (c Clock) Wait(ctx context.Context, until time.Duration) error {
	return pause(ctx, until-c.Elapsed())
}

func pause(ctx context.Context, length time.Duration) error {
	if length <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// GiveUpError ends a run to which nothing was answered well for too long.
type GiveUpError struct {
	After time.Duration
	Err   error // the last error, nil if there was no answer at all
}

// Error implements error.
func (e *GiveUpError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("stopped: no answer for %s", e.After)
	}
	return fmt.Sprintf("stopped: no request succeeded for %s; the last: %v", e.After, e.Err)
}

// Unwrap returns the last error.
func (e *GiveUpError) Unwrap() error { return e.Err }
