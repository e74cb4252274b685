package retention

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/clock"
)

const (
	minute = int64(time.Minute)
	hour   = 60 * minute
	day    = 24 * hour
)

// watched is evidence with clocks of its own.
type watched struct {
	*testing.T
	*Clock
	trueNs, offNs int64 // what the time is, and how far the clock is from it
	others, deny  bool
}

func newWatched(t *testing.T) *watched {
	w := &watched{T: t, trueNs: 20_000 * day}
	w.Clock = NewClock(func() int64 { return w.trueNs - 19_000*day })
	return w
}

// run lets the time pass, with a look each minute, and wants what is proven to be off from the true
// time by least to most at each of them.
func (w *watched) run(spanNs, least, most int64) {
	w.Helper()
	for end := w.trueNs + spanNs; w.trueNs < end; w.trueNs += minute {
		w.look(least, most)
	}
}

func (w *watched) look(least, most int64) {
	w.Helper()
	got := w.ConfirmedNs(clock.Reading{NowNs: w.trueNs + w.offNs, Confirmed: !w.deny,
		Others: w.others})
	if off := got - w.trueNs; off < least || off > most {
		w.Fatalf("proven is %v from the time, want %v to %v; the clock is off by %v",
			time.Duration(off), time.Duration(least), time.Duration(most), time.Duration(w.offNs))
	}
}

// nothing wants no time to be proven at present.
func (w *watched) nothing() {
	w.Helper()
	w.look(-w.trueNs, -w.trueNs)
}

// A clock that is right is believed; one that jumps ahead only after a tenth of the jump, and not
// if it comes back before.
func TestEvidenceOfJumps(t *testing.T) {
	for _, jump := range []int64{2 * minute, hour, day, 30 * day, 400 * day, 30 * 365 * day} {
		w := newWatched(t)
		w.run(hour, 0, 0)
		wait := min(max(10*minute, jump/10), 60*day)
		for range 3 { // it comes back each time
			w.offNs = jump
			w.run(wait-minute, 0, 0)
			w.offNs = 0
			w.run(hour, 0, 0)
		}
		w.offNs = jump
		w.run(wait-minute, 0, 0)
		w.trueNs += 2 * minute
		w.look(jump, jump)
	}
}

// A clock that jumps on and on, or runs fast, is never believed.
func TestEvidenceOfUnsteadyClocks(t *testing.T) {
	w := newWatched(t)
	w.look(0, 0)
	for i := range int64(1000) {
		w.offNs = (i%7 + 1) * day
		w.run(9*minute, 0, 0)
	}
	w = newWatched(t)
	w.look(0, 0)
	for range 100_000 { // a hundredth too fast
		w.offNs += minute / 100
		w.trueNs += minute
		w.look(0, 5*minute)
	}
}

// A clock that reads less is believed as long as it has not gone back behind the last step; behind
// that nothing is proven until it has stayed there.
func TestEvidenceOfClocksThatGoBack(t *testing.T) {
	w := newWatched(t)
	w.look(0, 0)
	w.trueNs += day
	w.offNs = -hour
	w.run(hour, -hour, -hour)
	w.Stepped(Steps{TimeNs: w.trueNs})
	w.trueNs += minute
	w.nothing()
	for range 8 {
		w.trueNs += minute
		w.nothing()
	}
	w.offNs = 0
	w.look(0, 0)
	w.offNs = -50 * 365 * day // a clock without a battery
	w.run(0, 0, 0)
	for range 100 {
		w.trueNs += hour
		w.nothing()
	}
	w.offNs = 0
	w.look(0, 0)
	w.offNs = -100 * day // what the last step said was wrong
	for range 10*24 + 1 {
		w.trueNs += hour - 1
		w.nothing()
	}
	w.trueNs += hour
	w.look(-100*day, -100*day)
}

// With other nodes, these decide: a clock that they contradict proves nothing, and one that they
// confirm is believed after ten minutes.
func TestEvidenceOfOthers(t *testing.T) {
	w := newWatched(t)
	w.others = true
	w.run(hour, 0, 0)
	w.deny, w.offNs = true, 365*day
	for range 1000 {
		w.trueNs += hour
		w.nothing()
	}
	w.offNs, w.deny = 0, false
	w.look(0, 0)
	w.Stepped(Steps{TimeNs: w.trueNs})
	w.SetReference(w.trueNs - 30*day) // the node was down
	w.run(9*minute, -30*day, -30*day)
	w.trueNs += 2 * minute
	w.look(0, 0)
}

// A clock that is far off is reported for as long as it is not believed.
func TestEvidenceIsReported(t *testing.T) {
	w := newWatched(t)
	w.look(0, 0)
	if text, _ := w.Deviation(); text != "" {
		t.Fatal(text)
	}
	w.offNs = 400 * day
	w.run(hour, 0, 0)
	text, left := w.Deviation()
	if text != "the clock is 9600h0m0s ahead of the time of the last retention step and what has "+
		"passed since" ||
		left < 39*24*time.Hour || left > 40*24*time.Hour {
		t.Fatal(text, left)
	}
	w.offNs = 0
	w.look(0, 0)
	if text, _ := w.Deviation(); text != "" {
		t.Fatal(text)
	}
}
