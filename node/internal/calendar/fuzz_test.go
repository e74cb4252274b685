package calendar

import (
	"math"
	"testing"
)

// Whatever people write as the length of windows and their zone is an error or a calendar, in which
// every time lies in its window.
func FuzzEvery(f *testing.F) {
	f.Add("15m", "Europe/Berlin", int64(0))
	f.Add("1mo", "+05:30", int64(math.MinInt64))
	f.Add("10000y", "America/St_Johns", int64(math.MaxInt64-1))
	f.Add("7h", "posix/../UTC", int64(1))
	f.Fuzz(func(t *testing.T, every, zone string, ns int64) {
		w, err := ParseEvery(every, zone)
		if err != nil {
			return
		}
		c, err := New(w)
		if err != nil || ns == math.MaxInt64 {
			return
		}
		from, to := c.Window(ns)
		if from > ns || to <= ns {
			t.Fatalf("%v: window of %d is [%d, %d)", w, ns, from, to)
		}
		if a, b := NewTable(c).Window(ns); a != from || b != to {
			t.Fatalf("%v: table: window of %d is [%d, %d), want [%d, %d)", w, ns, a, b, from, to)
		}
	})
}
