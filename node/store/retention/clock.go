package retention

import (
	"fmt"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/store/acqtime"
)

const (
	// trustWait is the least time for which a clock that jumped must stay there to be followed.
	trustWait = 10 * time.Minute
	// trustShare: one that jumped further must stay for a tenth of the jump, if nothing else
	// confirms it: a year that was mistyped has a month to be found.
	trustShare = 10
	// maxTrustWait: a clock that was at its beginning when the first step was taken is put right by
	// decades, which is not to take years.
	maxTrustWait = 60 * 24 * time.Hour
	// trustSpread and trustDrift bound how far the clock may move against the monotonic one while
	// it counts as staying there: by a second and a thousandth of the time.
	trustSpread = int64(time.Second)
	trustDrift  = 1000
	// loudGap is how far off a clock is that is reported.
	loudGap = time.Hour
)

// Clock decides what time is certain, for retentions, which would remove what is not
// old on the word of a wrong clock. From the last step on, which is in the manifest and the same on
// all replicas, time goes on by the monotonic clock; a clock that reads less is believed, and one
// that reads more, as after a node was down, only when it has stayed there for a while.
type Clock struct {
	monotonic func() int64

	mu sync.Mutex
	// It was referenceNs when the monotonic clock read referenceAt; referenceNs 0: nothing is
	// known.
	referenceNs, referenceAt int64
	last                     Steps // the last step
	ranAt                    int64 // the monotonic clock then

	// Since windowAt the clock has been ahead of the monotonic one by least to most; windowAt -1:
	// there is nothing to wait for.
	windowAt    int64
	least, most int64
	gapNs       int64 // how far the clock is from what is confirmed, at the last look
	waitNs      int64 // how long it must stay there
}

func NewClock(monotonic func() int64) *Clock {
	if monotonic == nil {
		began := time.Now()
		monotonic = func() int64 { return int64(time.Since(began)) }
	}
	return &Clock{monotonic: monotonic, windowAt: -1, ranAt: monotonic()}
}

// MonotonicNs returns what the monotonic clock reads.
func (e *Clock) MonotonicNs() int64 { return e.monotonic() }

// SetReference says what the time is; 0: nothing is known of it.
func (e *Clock) SetReference(timeNs int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.referenceNs, e.referenceAt = timeNs, e.monotonic()
}

// Stepped notes that a step was taken.
func (e *Clock) Stepped(m Steps) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m.Held = false; m == e.last { // nothing but a hold
		return
	}
	e.last = m
	e.referenceNs, e.referenceAt = m.TimeNs, e.monotonic()
	e.ranAt = e.referenceAt
}

// Ran returns how long the node has run since the last step.
func (e *Clock) Ran() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, e.monotonic()-e.ranAt)
}

// ConfirmedNs returns what time is certain when a clock has this reading, 0 when no step may be
// taken now.
func (e *Clock) ConfirmedNs(r clock.Reading) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, wallNs := e.monotonic(), acqtime.Clamp(r.NowNs)
	if r.Others && !r.Confirmed { // a leader whose clock other nodes contradict
		e.settle()
		return 0
	}
	if e.referenceNs == 0 {
		e.referenceNs, e.referenceAt = wallNs, now
	}
	went := e.referenceNs + (now - e.referenceAt)
	if wallNs <= went && wallNs >= e.referenceNs {
		e.settle()
		return wallNs
	}
	e.gapNs = wallNs - went
	e.watch(wallNs-now, now)
	e.waitNs = int64(trustWait)
	if !r.Others {
		share := int64(absDiff(wallNs, went) / trustShare)
		e.waitNs = max(e.waitNs, min(share, int64(maxTrustWait)))
	}
	switch {
	case r.Confirmed && now-e.windowAt >= e.waitNs:
		e.settle()
		e.referenceNs, e.referenceAt = wallNs, now
		return wallNs
	case wallNs < e.referenceNs:
		return 0
	}
	return went
}

// settle ends the wait for a clock that jumped.
func (e *Clock) settle() { e.windowAt, e.gapNs = -1, 0 }

// watch begins to wait, or begins again when the clock has moved since.
func (e *Clock) watch(offset, now int64) {
	least, most := min(e.least, offset), max(e.most, offset)
	if e.windowAt < 0 || absDiff(most, least) > uint64(trustSpread+(now-e.windowAt)/trustDrift) {
		e.windowAt, least, most = now, offset, offset
	}
	e.least, e.most = least, most
}

// Deviation describes a clock that is far from what is confirmed, empty for none, and says for how
// long it must go on like that to be followed.
func (e *Clock) Deviation() (text string, left time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.windowAt < 0 || absDiff(e.gapNs, 0) < uint64(loudGap) {
		return "", 0
	}
	way := "ahead of"
	if e.gapNs < 0 {
		way = "behind"
	}
	left = time.Duration(max(0, e.waitNs-(e.monotonic()-e.windowAt)))
	return fmt.Sprintf("the clock is %v %s the time of the last retention step and what has "+
		"passed since",
		time.Duration(int64(absDiff(e.gapNs, 0))).Round(time.Minute), way), left
}
