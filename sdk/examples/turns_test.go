package examples

import (
	"testing"
	"time"
)

// way is one of several ways to the same answer.
type way struct {
	name string
	run  func()
}

// inTurns measures ways in turns, so that they can be compared whatever else the machine does, and
// reports the fastest time of each.
func inTurns(b *testing.B, ways ...way) {
	best := make([]time.Duration, len(ways))
	for _, one := range ways { // the first one builds what others find
		one.run()
	}
	for b.Loop() {
		for i, one := range ways {
			began := time.Now()
			one.run()
			if took := time.Since(began); best[i] == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	b.ReportMetric(0, "ns/op") // of all ways together, which says nothing
	for i, one := range ways {
		b.ReportMetric(float64(best[i])/1e6, "ms-"+one.name)
	}
}
