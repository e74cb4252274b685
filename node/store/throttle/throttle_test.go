package throttle

import "testing"

// Merges are behind by the segments beyond those that merging leaves.
func TestOver(t *testing.T) {
	f := func(segments int, want int64) {
		t.Helper()
		var one Throttle
		one.SetBacklog(segments)
		one.Wait(1, nil)
		if one.Excess() != want || one.DelayedNs() != want*NsPerRow {
			t.Errorf("%d segments: over by %d, delayed by %d ns", segments, one.Excess(),
				one.DelayedNs())
		}
	}
	f(0, 0)
	f(SlowdownFrom, 0)
	f(SlowdownFrom+3, 3)
}
