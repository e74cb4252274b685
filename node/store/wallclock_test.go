package store

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// A clock is followed back and a little ahead, and far ahead only when it stays there.
func TestWallClock(t *testing.T) {
	const day = int64(24 * time.Hour)
	start := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC).UnixNano()
	wall, monotonic := start, int64(5000)
	c := &wallClock{read: func() (int64, int64) { return wall, monotonic }}
	pass := func(d time.Duration) { wall, monotonic = wall+int64(d), monotonic+int64(d) }
	f := func(want int64, leaps int64, leapt bool) {
		t.Helper()
		if got := c.now(); got != want || c.leaps != leaps || c.leapt != leapt {
			t.Errorf("%d ns after the start with %d leaps, %v; want %d, %d, %v", got-start, c.leaps,
				c.leapt, want-start, leaps, leapt)
		}
	}
	f(start, 0, false)
	pass(time.Second)
	f(start+int64(time.Second), 0, false)
	wall -= int64(time.Hour) // set back
	f(wall, 0, false)
	wall += 2 * day // slept
	f(wall, 0, false)
	pass(time.Hour)
	right := wall
	wall += 300 * day // leapt
	f(right, 1, true)
	pass(leapWait - 1)
	f(right+int64(leapWait)-1, 1, true)
	wall -= 300 * day // corrected
	f(wall, 1, false)
	wall += 300 * day
	right = wall - 300*day
	f(right, 2, true)
	pass(leapWait) // and stays
	f(wall, 2, false)
	right = wall
	wall += 4 * day // leapt a little
	f(right, 3, true)
	pass(leapWait - 1)
	wall += 9000 * day // and far, before it was followed
	pass(1)
	f(right+int64(leapWait), 4, true)
	pass(leapWait - 1)
	f(right+2*int64(leapWait)-1, 4, true)
	pass(1)
	f(wall, 4, false)
}

// Clocks at the ends of time stamp rows all the same, and strictly rising.
func TestClocksAtTheEnds(t *testing.T) {
	for _, now := range []int64{math.MinInt64, math.MaxInt64} {
		var wall atomic.Int64
		wall.Store(now)
		opt := Options{Dir: t.TempDir(), Now: wall.Load}
		s := openTest(t, opt)
		last := int64(math.MinInt64)
		for i := range int64(3) {
			res := mustPut(t, s, batchOf(record.Key{MID: i}, record.Key{MID: i + 9}), WriterSeq{})
			horizon, err := s.Horizon(t.Context())
			if err != nil || res.FirstAcqNs <= last || horizon <= res.LastAcqNs ||
				res.LastAcqNs > lastClockNs+1000 {
				t.Fatalf("clock %d: stamps %+v after %d, horizon %d, %v", now, res, last, horizon,
					err)
			}
			last = res.LastAcqNs
		}
		if rows := scanRows(t, s, &record.Query{}); len(rows) != 6 {
			t.Errorf("clock %d: %d rows", now, len(rows))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The state of the clock tells that it was set back.
func TestClockState(t *testing.T) {
	var wall atomic.Int64
	wall.Store(time.Now().UnixNano())
	s := openTest(t, Options{Now: wall.Load})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	if state := s.Clock(); state != (ClockState{}) {
		t.Errorf("a clock that is right: %+v", state)
	}
	wall.Add(-int64(time.Hour))
	before, err := s.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	res := mustPut(t, s, batchOf(record.Key{MID: 2}), WriterSeq{})
	state := s.Clock()
	if ahead := time.Duration(state.AheadNs); res.FirstAcqNs < before || ahead < 59*time.Minute ||
		ahead > 61*time.Minute {
		t.Errorf("set back by an hour: acq %d, horizon before %d, %+v", res.FirstAcqNs, before,
			state)
	}
	if s = openTest(t, Options{}); s.Clock() != (ClockState{}) {
		t.Errorf("the system's clock: %+v", s.Clock())
	}
}
