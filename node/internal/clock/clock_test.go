package clock

import (
	"fmt"
	"testing"
	"time"
)

// fake is a machine whose clocks a test moves.
type fake struct {
	wall, monotonic, slept int64
	synced                 bool
}

func (f *fake) Read() (wallNs, monotonicNs int64) { return f.wall, f.monotonic }
func (f *fake) SleptNs() int64                    { return f.slept }
func (f *fake) Synchronized() bool                { return f.synced }

func (f *fake) pass(d time.Duration) { f.wall, f.monotonic = f.wall+int64(d), f.monotonic+int64(d) }
func (f *fake) step(d time.Duration) { f.wall += int64(d) }
func (f *fake) sleep(d time.Duration) {
	f.wall, f.slept = f.wall+int64(d), f.slept+int64(d)
}

const day = 24 * time.Hour

// start is when the tests begin.
func start() int64 { return time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC).UnixNano() }

func newFake() *fake { return &fake{wall: start(), monotonic: 5000} }

// Steps that tests make, forward and backward.
func steps() []time.Duration {
	return []time.Duration{time.Second, 10 * time.Second, day, 365 * day, 400 * day,
		-time.Second, -10 * time.Second, -day, -365 * day, -400 * day}
}

// want compares a reading with what was expected.
func want(t *testing.T, c *Clock, ns int64, confirmed bool) {
	t.Helper()
	if got := c.Read(); got.NowNs != ns || got.Confirmed != confirmed || c.NowNs() != ns {
		t.Errorf("%v from what was expected, confirmed %v, want %v", time.Duration(got.NowNs-ns),
			got.Confirmed, confirmed)
	}
}

// What stays within the bound is followed at once, also when it adds up only once confirmed.
func TestFollows(t *testing.T) {
	f := newFake()
	c := New(Options{Machine: f})
	want(t, c, start(), false)
	f.pass(time.Second)
	f.step(400 * time.Millisecond)
	want(t, c, f.wall, false)
	f.step(-800 * time.Millisecond)
	want(t, c, f.wall, false)
	f.step(400 * time.Millisecond)
	f.pass(stayFor)
	want(t, c, f.wall, true) // nothing has moved it for ten minutes
	f.step(400 * time.Millisecond)
	want(t, c, f.wall, true)
	f.step(400 * time.Millisecond) // small steps do not add up unseen
	want(t, c, f.wall-int64(800*time.Millisecond), false)
	f.pass(stayFor)
	want(t, c, f.wall, true)
}

// A step is not followed at once, and not counted twice; time goes on as it did.
func TestStepsOfOneNode(t *testing.T) {
	for _, d := range steps() {
		t.Run(d.String(), func(t *testing.T) {
			f := newFake()
			c := New(Options{Machine: f})
			f.pass(stayFor)
			want(t, c, f.wall, true)
			f.step(d)
			for range 9 { // it stays
				want(t, c, f.wall-int64(d), false)
				f.pass(time.Minute)
			}
			want(t, c, f.wall-int64(d), false)
			if s := c.State(); s.Steps != 1 || s.Followed != 0 || s.StepNs != int64(d) ||
				s.WaitNs != int64(time.Minute) || len(c.Problems()) != 1 {
				t.Errorf("%+v", s)
			}
			f.pass(time.Minute)
			want(t, c, f.wall, true)
			if s := c.State(); s.Steps != 1 || s.Followed != 1 || len(c.Problems()) != 0 {
				t.Errorf("after it was followed: %+v", s)
			}
			f.step(d)
			want(t, c, f.wall-int64(d), false)
			f.pass(9 * time.Minute)
			f.step(-d) // and is corrected
			want(t, c, f.wall, true)
			f.step(d)
			want(t, c, f.wall-int64(d), false)
			f.pass(9 * time.Minute)
			f.step(d) // and goes on: ten minutes from here
			want(t, c, f.wall-2*int64(d), false)
			f.pass(9 * time.Minute)
			want(t, c, f.wall-2*int64(d), false)
			f.pass(time.Minute)
			want(t, c, f.wall, true)
		})
	}
}

// The kernel's word that its clock is synchronised confirms a step when it says so for a while.
func TestSynchronized(t *testing.T) {
	for _, d := range steps() {
		f := newFake()
		f.synced = true
		c := New(Options{Machine: f})
		want(t, c, f.wall, true)
		f.synced = false // as settimeofday does
		f.step(d)
		want(t, c, f.wall-int64(d), false)
		f.pass(time.Minute)
		f.synced = true
		want(t, c, f.wall-int64(d), false)
		f.pass(5 * time.Second)
		f.synced = false
		want(t, c, f.wall-int64(d), false)
		f.pass(time.Second)
		f.synced = true
		want(t, c, f.wall-int64(d), false)
		f.pass(syncFor)
		want(t, c, f.wall, true)
	}
}

// A machine that slept is followed at once, for as long as it slept.
func TestSleep(t *testing.T) {
	f := newFake()
	c := New(Options{Machine: f})
	f.pass(stayFor)
	want(t, c, f.wall, true)
	f.sleep(10 * day)
	want(t, c, f.wall, true)
	f.sleep(day)
	f.step(365 * day)
	want(t, c, f.wall-int64(365*day), false)
}

// At open the past is evidence: a clock far ahead of it, or behind it, is a step.
func TestBegin(t *testing.T) {
	f := func(acqAgo, fileAgo, wantStep time.Duration, confirmed bool) {
		t.Helper()
		m := newFake()
		c := New(Options{Machine: m})
		past := func(ago time.Duration) int64 {
			if ago == 0 {
				return 0
			}
			return m.wall - int64(ago)
		}
		c.Begin(past(acqAgo), past(fileAgo))
		want(t, c, m.wall-int64(wantStep), confirmed)
		m.pass(time.Minute)
		want(t, c, m.wall-int64(wantStep), confirmed)
		if s := c.State(); s.StepNs != int64(wantStep) {
			t.Errorf("step of %v, want %v", time.Duration(s.StepNs), wantStep)
		}
		m.pass(stayFor)
		want(t, c, m.wall, true)

		m = newFake() // and with a kernel that says that it is right
		m.synced = true
		c = New(Options{Machine: m})
		c.Begin(past(acqAgo), past(fileAgo))
		want(t, c, m.wall, true)
	}
	f(0, 0, 0, false) // an empty directory
	f(time.Second, 2*time.Second, 0, true)
	f(time.Hour, 2*time.Hour, 0, true)
	f(2*time.Hour, time.Minute, 0, true) // at rest
	f(day, 0, 0, false)
	f(3*day, 4*day, 0, false)
	f(400*day, 0, 400*day, false)
	f(400*day, 365*day, 365*day, false)
	f(-time.Minute, time.Second, -time.Minute, false)
	f(-400*day, -400*day, -400*day, false)
	f(time.Second, -400*day, 0, false) // only a file
}

// What several stores know is put together.
func TestBeginOfMany(t *testing.T) {
	m := newFake()
	c := New(Options{Machine: m})
	c.Begin(m.wall-int64(400*day), 0)
	want(t, c, m.wall-int64(400*day), false)
	c.Begin(m.wall-int64(399*day), 0)
	want(t, c, m.wall-int64(399*day), false)
	c.Begin(m.wall-int64(time.Minute), 0)
	want(t, c, m.wall, true)
	c.Begin(m.wall-int64(390*day), 0)
	want(t, c, m.wall, true)
	m.pass(stayFor)
	c.Begin(m.wall+int64(400*day), 0) // a replica that came later: its acqs are another's
	m.step(time.Second)
	want(t, c, m.wall-int64(time.Second), false)
	c.Begin(m.wall+int64(400*day), 0)
	want(t, c, m.wall-int64(time.Second), false)
}

// A clock that is given is believed.
func TestOf(t *testing.T) {
	now := start()
	c := Of(func() int64 { return now })
	want(t, c, now, true)
	now += int64(400 * day)
	want(t, c, now, true)
	if s := c.State(); s.NowNs != now || !s.Confirmed || len(c.Problems()) != 0 || !c.MayLead() {
		t.Errorf("%+v", s)
	}
}

func BenchmarkNowNs(b *testing.B) {
	c := New(Options{})
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			_ = c.NowNs()
		}
	})
	b.Run("time.Now", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now().UnixNano()
		}
	})
}

func ExampleClock() {
	f := newFake()
	c := New(Options{Machine: f})
	f.step(400 * day)
	fmt.Println(time.Unix(0, c.NowNs()).UTC())
	// Output: 2026-03-03 12:00:00 +0000 UTC
}
