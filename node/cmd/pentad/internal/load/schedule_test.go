package load

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestDueAt(t *testing.T) {
	f := func(perSecond float64, i int64, want time.Duration) {
		t.Helper()
		if got := (Schedule{PerSecond: perSecond}).DueAt(i); got != want {
			t.Errorf("request %d of %v/s: due at %s, want %s", i, perSecond, got, want)
		}
	}
	f(0, 1000, 0)
	f(1, 0, 0)
	f(1, 3, 3*time.Second)
	f(1000, 1, time.Millisecond)
	f(0.5, 1, 2*time.Second)
	f(1e6, 1e9, 1000*time.Second)
	f(1e-300, 1, math.MaxInt64)
}

func TestDue(t *testing.T) {
	f := func(s Schedule, elapsed time.Duration, want int64) {
		t.Helper()
		if got := s.Due(elapsed); got != want {
			t.Errorf("%+v after %s: %d due, want %d", s, elapsed, got, want)
		}
	}
	f(Schedule{}, time.Hour, 0) // nothing is ever late without a rate
	f(Schedule{PerSecond: 10}, 0, 0)
	f(Schedule{PerSecond: 10}, 1, 1)
	f(Schedule{PerSecond: 10}, time.Second, 10)
	f(Schedule{PerSecond: 10}, time.Second+1, 11)
	f(Schedule{PerSecond: 10, Requests: 5}, time.Second, 5)
	f(Schedule{PerSecond: 10, For: time.Second}, time.Hour, 10)
	f(Schedule{PerSecond: 1e300}, time.Second, math.MaxInt64)
	f(Schedule{PerSecond: 1e300, Requests: 5}, time.Second, 5)
	f(Schedule{PerSecond: 1e-300}, math.MaxInt64, 1)
	for ms := range time.Duration(500) { // 0.07 * 100 is more than 7
		for _, perSecond := range []float64{3, 7, 10, 30, 100, 300, 700} {
			s, want := Schedule{PerSecond: perSecond}, int64(0)
			for s.DueAt(want) < ms*time.Millisecond {
				want++
			}
			f(s, ms*time.Millisecond, want)
		}
	}
}

// TestPacer takes requests at moments of a clock that is not real.
func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := StartClock()
		p := NewPacer(Schedule{PerSecond: 10, For: time.Second})
		for i := range int64(4) {
			task, ok := p.Next(t.Context(), clock)
			want := Task{Index: i, Timed: true, DueAt: time.Duration(i) * 100 * time.Millisecond}
			if !ok || task != want {
				t.Errorf("%+v, %v, want %+v", task, ok, want)
			}
		}
		if lag := p.Lag(clock.Elapsed()); lag != 0 {
			t.Errorf("lag %s before anything was due", lag)
		}
		time.Sleep(700 * time.Millisecond)
		if lag, n := p.Lag(clock.Elapsed()), p.Unsent(clock.Elapsed()); n != 3 ||
			lag != 300*time.Millisecond {
			t.Errorf("lag %s, %d unsent, want 300ms and 3", lag, n)
		}
		time.Sleep(300 * time.Millisecond)
		if task, ok := p.Next(t.Context(), clock); ok {
			t.Errorf("%+v after the end", task)
		}
		if n := p.Unsent(time.Hour); n != 6 {
			t.Errorf("%d unsent, want 6", n)
		}
	})
	p := NewPacer(Schedule{Requests: 2})
	for i := range 3 {
		if task, ok := p.Next(t.Context(), StartClock()); ok != (i < 2) || task.Timed {
			t.Errorf("request %d: %+v, %v", i, task, ok)
		}
	}
	if p.Lag(time.Hour) != 0 || p.Unsent(time.Hour) != 0 {
		t.Error("late without a rate")
	}
}
