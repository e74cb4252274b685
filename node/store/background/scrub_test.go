package background

import (
	"testing"
	"time"
)

// Pauses spread a pass over its time, and stores that share a rate keep to it together.
func TestScrubPause(t *testing.T) {
	f := func(sc *Scrub, n, all int64, at, want time.Duration) {
		t.Helper()
		if got := sc.Pause(n, all, time.Unix(1e9, 0).Add(at)); got.Round(time.Millisecond) != want {
			t.Errorf("%d of %d bytes: %v, want %v", n, all, got, want)
		}
	}
	slow := NewScrub(100*time.Second, 1e6)
	f(slow, 10, 1000, 0, time.Second)
	f(slow, 1000, 1000, time.Second, 100*time.Second)
	f(slow, 1000, 0, time.Hour, 100*time.Second) // of a segment that was merged meanwhile
	full := NewScrub(100*time.Second, 1e6)
	f(full, 1e6, 1e12, 0, time.Second)
	f(full, 1e6, 1e12, 0, 2*time.Second) // of another store
	f(full, 1e6, 1e12, 5*time.Second, time.Second)
}
