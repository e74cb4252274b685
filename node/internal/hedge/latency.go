package hedge

import (
	"math/bits"
	"sync"
	"time"
)

const (
	// latencyBuckets: two for each power of two in ns, up to maxLatency.
	latencyBuckets = 84
	maxLatency     = time.Hour
	// minSamples is how many samples a percentile needs.
	minSamples = 16
	// halveAt is the number of samples at which all counts are halved, so that percentiles follow
	// the last few hundred answers.
	halveAt = 512
)

// Latency is the recent latency of one node for one kind of call, in logarithmic buckets;
// older samples weigh less.
type Latency struct {
	mu     sync.Mutex
	counts [latencyBuckets]uint16 // guarded by mu
	sum    int                    // guarded by mu: of counts
}

// latencyBucket returns the bucket of a latency.
func latencyBucket(d time.Duration) int {
	ns := uint64(min(max(d, 2), maxLatency))
	doublings := bits.Len64(ns) - 1
	return 2*doublings + int(ns>>(doublings-1)&1)
}

// bucketEnd returns the start of the next bucket.
func bucketEnd(bucket int) time.Duration {
	return time.Duration(3+bucket%2) << (bucket / 2) >> 1
}

// Add adds a sample: the latency of an answer, or how long was waited for it in vain.
func (u *Latency) Add(took time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts[latencyBucket(took)]++
	if u.sum++; u.sum < halveAt {
		return
	}
	u.sum = 0
	for i := range u.counts {
		u.counts[i] /= 2
		u.sum += int(u.counts[i])
	}
}

// p95 returns the 95th percentile, if there are enough samples.
func (u *Latency) p95() (took time.Duration, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sum < minSamples {
		return 0, false
	}
	longer := u.sum / 20
	span := latencyBuckets - 1
	for ; int(u.counts[span]) <= longer; span-- {
		longer -= int(u.counts[span])
	}
	return bucketEnd(span), true
}
