package throttle

import "testing"

// Merges are behind by the segments beyond those that merging leaves.
func TestOver(t *testing.T) {
	f := func(segments int, want int64) {
		t.Helper()
		var one Throttle
		one.SetSegments(segments)
		one.Wait(1, nil)
		if one.Over() != want || one.DelayedNs() != want*NsPerRow {
			t.Errorf("%d segments: over by %d, delayed by %d ns", segments, one.Over(),
				one.DelayedNs())
		}
	}
	f(0, 0)
	f(From, 0)
	f(From+3, 3)
}
