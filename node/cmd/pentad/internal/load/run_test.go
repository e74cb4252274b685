package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// worker sends by a function that is told which request it is, and which attempt at it.
type worker struct {
	send    func(ctx context.Context, i int64, attempt int) error
	task    Task
	attempt int
}

func (w *worker) Prepare(t Task) int {
	w.task, w.attempt = t, 0
	return 0
}

func (w *worker) Send(ctx context.Context) (Answer, error) {
	w.attempt++
	if err := w.send(ctx, w.task.Index, w.attempt); err != nil {
		return Answer{}, err
	}
	return Answer{Records: 10, PayloadBytes: 80}, nil
}

var (
	errFatal = errors.New("fatal")
	errBusy  = errors.New("busy")
)

// run makes a run of workers that share a function, and judges the errors above.
func run(s Schedule, workers int,
	send func(ctx context.Context, i int64, attempt int) error) *Run {
	r := &Run{Kinds: []string{"test"}, Source: NewPacer(s), For: s.For, GiveUp: 30 * time.Second,
		Judge: func(err error) Verdict {
			return Verdict{Name: err.Error(), Fatal: errors.Is(err, errFatal)}
		}}
	for range workers {
		r.Workers = append(r.Workers, &worker{send: send})
	}
	return r
}

// after answers after a time, unless ctx ends before.
func after(ctx context.Context, d time.Duration) error { return pause(ctx, d) }

// TestStallShows stalls a node for 2 of 10 seconds. With a rate, a fifth of the requests had to
// wait for it, and percentiles show that; without, one request of each worker did, and they hide
// it: the omission that a rate is there to avoid.
func TestStallShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := StartClock()
		stalling := func(ctx context.Context, _ int64, _ int) error {
			const from, to = 4 * time.Second, 6 * time.Second
			length := time.Millisecond
			if now := clock.Elapsed(); now >= from && now < to {
				length = to - now + time.Millisecond
			}
			return after(ctx, length)
		}
		f := func(s Schedule, requests int64, p99From, p99To time.Duration) Report {
			t.Helper()
			clock = StartClock()
			report, err := run(s, 4, stalling).Do(t.Context())
			all := report.All
			if err != nil || all.Requests != requests || all.Failed != 0 ||
				all.Latency.P99 < p99From || all.Latency.P99 > p99To {
				t.Errorf("%+v: %v, %+v", s, err, all)
			}
			if max := all.Latency.Max; max < 2*time.Second || max > 2010*time.Millisecond {
				t.Errorf("%+v: the slowest took %s", s, max)
			}
			return report
		}
		paced := f(Schedule{PerSecond: 100, For: 10 * time.Second}, 1000, 1800*time.Millisecond,
			2*time.Second)
		if l := paced.All.Latency; l.P50 > 2*time.Millisecond || l.P90 < 900*time.Millisecond {
			t.Errorf("%+v", l)
		}
		if s := paced.All.Service; s.P99 > 2*time.Millisecond {
			t.Errorf("once sent: %+v", s)
		}
		if paced.Duration != 10*time.Second || paced.All.Records != 10_000 ||
			paced.MaxLag < 1900*time.Millisecond {
			t.Errorf("%+v", paced)
		}
		f(Schedule{For: 10 * time.Second}, 4*8000, 0, 2*time.Millisecond)
	})
}

// TestTooSlow asks for more than the node can take: what is left over is told, and lag grows.
func TestTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(Schedule{PerSecond: 100, For: 10 * time.Second}, 1,
			func(ctx context.Context, _ int64, _ int) error {
				return after(ctx, 20*time.Millisecond)
			})
		var told []Progress
		r.Tell = func(p Progress) { told = append(told, p) }
		report, err := r.Do(t.Context())
		if err != nil || report.All.Requests != 500 || report.All.Latency.Max < 5*time.Second {
			t.Errorf("%v, %+v", err, report)
		}
		if n := r.Source.(*Pacer).Unsent(report.Duration); n != 500 {
			t.Errorf("%d unsent, want 500", n)
		}
		if len(told) < 9 {
			t.Fatalf("told %d times", len(told))
		}
		p := told[8]
		if p.Elapsed != 9*time.Second || p.Lag < 4*time.Second || p.RequestRate < 45 ||
			p.RequestRate > 55 || p.Rate < 450 || p.P50 < 4*time.Second || p.Idle {
			t.Errorf("%+v", p)
		}
	})
}

// TestFailuresDoNotDelay has a node fail every tenth request at once, and all for two of ten
// seconds. With a rate none of it makes the requests after it late: that would be a pause of the
// load and not of the node.
func TestFailuresDoNotDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := StartClock()
		report, err := run(Schedule{PerSecond: 100, For: 10 * time.Second}, 1,
			func(ctx context.Context, i int64, _ int) error {
				now := clock.Elapsed()
				if away := now >= 4*time.Second && now < 6*time.Second; away || i%10 == 0 {
					return errBusy
				}
				return after(ctx, time.Millisecond)
			}).Do(t.Context())
		all := report.All
		if err != nil || all.Requests != 1000 || all.Failed != 280 || report.MaxLag != 0 ||
			all.Latency.Max > 2*time.Millisecond {
			t.Errorf("%v, %+v", err, report)
		}
	})
}

// TestSlowTell has a reader of the progress who stops reading: that is not time of the run.
func TestSlowTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(Schedule{PerSecond: 100, For: 2 * time.Second}, 1,
			func(ctx context.Context, _ int64, _ int) error { return after(ctx, time.Millisecond) })
		r.Tell = func(Progress) { time.Sleep(10 * time.Second) }
		report, err := r.Do(t.Context())
		if err != nil || report.Duration != 2*time.Second || report.All.Requests != 200 {
			t.Errorf("%v, %+v", err, report)
		}
	})
}

// TestRetry fails every request twice.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := func(_ context.Context, _ int64, attempt int) error {
			if attempt <= 2 {
				return errBusy
			}
			return nil
		}
		r := run(Schedule{Requests: 5}, 2, failing)
		r.Retry = true
		report, err := r.Do(t.Context())
		all := report.All
		if err != nil || all.Requests != 5 || all.Failed != 0 || all.Retries != 10 ||
			all.Errors["busy"] != 10 || all.Records != 50 || all.Latency.P50 < 60*time.Millisecond {
			t.Errorf("%v, %+v", err, all)
		}
		report, err = run(Schedule{Requests: 5}, 2, failing).Do(t.Context())
		all = report.All
		if err != nil || all.Requests != 5 || all.Failed != 5 || all.Retries != 0 ||
			all.Errors["busy"] != 5 || all.Latency.Count != 0 || report.Duration > time.Second {
			t.Errorf("without: %v, %+v", err, all)
		}
	})
}

func TestFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(Schedule{}, 3, func(ctx context.Context, i int64, _ int) error {
			if i == 7 {
				return errFatal
			}
			return after(ctx, time.Second)
		})
		r.Retry = true
		report, err := r.Do(t.Context())
		if !errors.Is(err, errFatal) || report.All.Failed != 1 || report.All.Errors["fatal"] != 1 {
			t.Errorf("%v, %+v", err, report)
		}
	})
}

// TestGiveUp has the node refuse, or say nothing, from some moment on.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 31 * time.Second // and the three seconds before
		f := func(s Schedule, retry bool, gone error, name string) {
			t.Helper()
			clock := StartClock()
			r := run(s, 4, func(ctx context.Context, _ int64, _ int) error {
				switch {
				case clock.Elapsed() < 3*time.Second:
					return after(ctx, 10*time.Millisecond)
				case gone == nil:
					<-ctx.Done()
					return context.Cause(ctx)
				}
				return gone
			})
			r.Retry = retry
			report, err := r.Do(t.Context())
			var gaveUp *GiveUpError
			if !errors.As(err, &gaveUp) || gaveUp.Err != gone || report.All.Failed < 4 ||
				report.All.Errors[name] < 4 || report.Duration > 3*time.Second+bound {
				t.Errorf("%v, %+v", err, report)
			}
		}
		f(Schedule{}, true, errBusy, "busy")
		f(Schedule{}, false, errBusy, "busy")
		f(Schedule{}, true, nil, noAnswer)
		f(Schedule{PerSecond: 100}, true, nil, noAnswer)
		f(Schedule{PerSecond: 100}, false, errBusy, "busy")
	})
}

// TestLongAdvice has a node that wants to be left alone for a day.
func TestLongAdvice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, retry := range []bool{false, true} {
			r := run(Schedule{}, 2, func(context.Context, int64, int) error { return errBusy })
			r.Retry = retry
			r.Judge = func(error) Verdict { return Verdict{Name: "busy", After: 24 * time.Hour} }
			report, err := r.Do(t.Context())
			if !errors.As(err, new(*GiveUpError)) || report.Duration > 2*time.Minute {
				t.Errorf("retry %v: %v, %s", retry, err, report.Duration)
			}
		}
	})
}

// TestPatience makes requests that are far apart, or slow, or wait in a queue: none is a reason to
// give up.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(s Schedule, length time.Duration, want int64) {
			t.Helper()
			report, err := run(s, 1, func(ctx context.Context, _ int64, _ int) error {
				return after(ctx, length)
			}).Do(t.Context())
			if err != nil || report.All.Requests != want || report.All.Failed != 0 {
				t.Errorf("%+v: %v, %+v", s, err, report.All)
			}
		}
		f(Schedule{PerSecond: 0.01, Requests: 5}, time.Millisecond, 5)
		f(Schedule{PerSecond: 1, Requests: 5}, 29*time.Second, 5)
		f(Schedule{PerSecond: 0.01, For: time.Minute}, time.Millisecond, 1)
		report, err := run(Schedule{PerSecond: 0.01, Requests: 4}, 1,
			func(_ context.Context, i int64, _ int) error {
				if i%2 == 0 {
					return errBusy
				}
				return nil
			}).Do(t.Context())
		if err != nil || report.All.Requests != 4 || report.All.Failed != 2 {
			t.Errorf("failures far apart: %v, %+v", err, report.All)
		}
	})
}

// TestInterrupt ends a run from outside: what is in progress does not count.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var begun atomic.Int64
		report, err := run(Schedule{}, 2, func(ctx context.Context, _ int64, _ int) error {
			begun.Add(1)
			return after(ctx, time.Second)
		}).Do(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || begun.Load() != 6 ||
			report.All.Requests != 4 || report.All.Failed != 0 || len(report.All.Errors) != 0 {
			t.Errorf("%v, %d begun, %+v", err, begun.Load(), report)
		}
	})
}

// TestTimerSlack does not count as latency that a worker which stood ready was woken late; what is
// later than timers are does count.
func TestTimerSlack(t *testing.T) {
	f := func(early bool, late, want time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := run(Schedule{}, 1, func(ctx context.Context, _ int64, _ int) error {
				return after(ctx, 5*time.Millisecond)
			})
			s := &session{Run: r, clock: StartClock(), recorder: newRecorder(r.Kinds)}
			r.Workers[0].Prepare(Task{})
			time.Sleep(time.Second + late)
			s.request(t.Context(), r.Workers[0], 0, Task{Timed: true, DueAt: time.Second,
				Early: early})
			if got := s.recorder.report(0).All.Latency.Max; got != want {
				t.Errorf("early %v, %s late: latency %s, want %s", early, late, got, want)
			}
		})
	}
	f(true, time.Millisecond, 5*time.Millisecond)
	f(true, 3*time.Millisecond, 8*time.Millisecond)
	f(false, time.Millisecond, 6*time.Millisecond)
}
