package load

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	tellEvery    = time.Second
	watchEvery   = 100 * time.Millisecond // how late a run may notice that it is to give up
	firstBackoff = 20 * time.Millisecond
	maxBackoff   = time.Second

	// timerSlack is how late a timer may wake a worker without this counting as latency: Linux
	// rounds up to a millisecond, which would double the figures of a fast node.
	timerSlack = 2 * time.Millisecond

	// noAnswer names requests that were in progress when the run gave up.
	noAnswer = "no-answer"
)

// Run sends the requests of a source through its workers.
//
// Goroutines: one per worker, and one that waits for these; Do returns after all have ended.
type Run struct {
	Kinds   []string // names; workers return indexes
	Workers []Worker // each makes one request at a time
	Source  Source
	Judge   func(error) Verdict
	Retry   bool           // what failed is sent again, until the end of the run
	For     time.Duration  // how long the run takes; nothing is sent again later; 0: no end
	GiveUp  time.Duration  // the run ends when nothing succeeds for so long
	Tell    func(Progress) // called every second; may be nil
}

// session is a run in progress.
type session struct {
	*Run
	clock    Clock
	recorder *recorder
	stop     context.CancelCauseFunc
}

// Do runs to the end of the source, and returns what there is to report also with an error:
// *GiveUpError, the first error that Judge calls fatal, or the cause of the end of ctx, in which
// case running requests are left and not counted.
func (r *Run) Do(ctx context.Context) (Report, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &session{Run: r, clock: StartClock(), recorder: newRecorder(r.Kinds), stop: stop}
	var workers, waiter sync.WaitGroup
	for _, w := range r.Workers {
		workers.Go(func() { s.work(ctx, w) })
	}
	ended := make(chan struct{})
	var took time.Duration // until ended is closed: Tell may hang on a terminal that was stopped
	waiter.Go(func() {
		workers.Wait()
		_ = s.clock.Wait(ctx, s.For) // a rate holds for all of the time, or the end came early
		took = s.clock.Elapsed()
		close(ended)
	})
	s.watch(ended)
	waiter.Wait()
	report := s.recorder.report(took)
	report.MaxLag = max(report.MaxLag, r.Source.Lag(took)) // of what was due and never sent
	return report, context.Cause(ctx)
}

// watch tells of progress and gives up when there is none, until ended is closed.
func (s *session) watch(ended <-chan struct{}) {
	watch, tell := time.NewTicker(watchEvery), time.NewTicker(tellEvery)
	defer watch.Stop()
	defer tell.Stop()
	for {
		select {
		case <-ended:
			return
		case <-watch.C:
			if quiet, err := s.recorder.quiet(s.clock.Elapsed()); quiet > s.GiveUp {
				s.stop(&GiveUpError{s.GiveUp, err})
			}
		case <-tell.C:
			if s.Tell != nil {
				now := s.clock.Elapsed()
				s.Tell(s.recorder.progress(now, s.Source.Lag(now)))
			}
		}
	}
}

func (s *session) work(ctx context.Context, w Worker) {
	backoff := firstBackoff
	for {
		task, ok := s.Source.Next(ctx, s.clock)
		if !ok {
			return
		}
		kind := w.Prepare(task)
		if task.Timed {
			task.Early = task.Early || s.clock.Elapsed() < task.DueAt
			_ = s.clock.Wait(ctx, task.DueAt) // ctx is looked at below
		}
		if ctx.Err() != nil {
			return
		}
		after, ok := s.request(ctx, w, kind, task)
		if ok || task.Timed { // the next is due at its time, whatever became of this one
			backoff = firstBackoff
			continue
		}
		// A node that refuses is not to be asked as fast as it can refuse; but it is asked before
		// the run gives up.
		if pause(ctx, min(max(backoff, after), s.GiveUp)) != nil {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// request sends one request until it succeeds or is not to be tried again. It returns whether it
// succeeded and, if not, for how long the node wants to be left alone.
func (s *session) request(ctx context.Context, w Worker, kind int, task Task) (
	after time.Duration, ok bool) {
	sentAt := s.clock.Elapsed()
	dueAt := sentAt
	if delay := sentAt - task.DueAt; task.Timed && (!task.Early || delay > timerSlack) {
		dueAt = task.DueAt
	}
	s.recorder.begin(sentAt, sentAt-dueAt)
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		answer, err := w.Send(ctx)
		now := s.clock.Elapsed()
		if err == nil {
			s.recorder.success(kind, answer, now, now-dueAt, now-sentAt)
			return 0, true
		}
		if ctx.Err() != nil {
			s.ended(ctx, kind, true)
			return 0, false
		}
		verdict := s.Judge(err)
		s.recorder.failure(kind, verdict.Name, err, now)
		if verdict.Fatal {
			s.stop(err)
		}
		if verdict.Fatal || !s.Retry || s.For > 0 && now >= s.For {
			s.recorder.lost(kind)
			return verdict.After, false
		}
		if pause(ctx, max(backoff, verdict.After)) != nil {
			s.ended(ctx, kind, false)
			return 0, false
		}
		s.recorder.retry(kind)
	}
}

// ended accounts for a request that the end of the run cut off: a node that let it wait for too
// long has failed it, a person who ended the run has not.
func (s *session) ended(ctx context.Context, kind int, waiting bool) {
	if !errors.As(context.Cause(ctx), new(*GiveUpError)) {
		s.recorder.left()
		return
	}
	if waiting {
		s.recorder.failure(kind, noAnswer, nil, s.clock.Elapsed())
	}
	s.recorder.lost(kind)
}
