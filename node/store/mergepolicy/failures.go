package mergepolicy

import (
	"maps"
	"time"
)

const (
	// RetryAfter is how long a merge that failed is left alone.
	RetryAfter = time.Minute
	// damagedRetry is the same for the rewrite of one segment whose damage is known: a purge needs
	// all of it, and fails again until it is mended.
	damagedRetry = time.Hour
)

// Failures are the merges that failed and were not tried again since. The zero value has none.
type Failures struct {
	retry time.Duration
	runs  map[uint64]failure // by the first segment
}

type failure struct {
	at    time.Time
	err   error
	alone bool // the run was one segment, of which rows were to go
}

// NewFailures returns none. A merge that fails is left alone for retry.
func NewFailures(retry time.Duration) Failures {
	return Failures{retry: retry, runs: map[uint64]failure{}}
}

// MayRetry reports whether the run that begins with a segment may be tried. damaged says that the
// damage of this segment is known.
func (f Failures) MayRetry(first uint64, damaged bool) bool {
	run, failed := f.runs[first]
	return !failed || time.Since(run.at) > f.wait(run, damaged)
}

// wait returns how long a run is left alone. A run of several is not due while the damage of one of
// them is known.
func (f Failures) wait(run failure, damaged bool) time.Duration {
	if damaged && run.alone {
		return max(f.retry, damagedRetry)
	}
	return f.retry
}

// Note remembers how the merge of some segments ended. What was merged is not there to be tried
// again.
func (f Failures) Note(run []uint64, err error) {
	if err != nil {
		f.runs[run[0]] = failure{time.Now(), err, len(run) == 1}
		return
	}
	for _, id := range run {
		delete(f.runs, id)
	}
}

// Forget drops the runs that a look which began then might have tried: they are not due any more.
// isDamaged reports whether the damage of a segment is known, as MayRetry is told.
func (f Failures) Forget(began time.Time, isDamaged func(first uint64) bool) {
	maps.DeleteFunc(f.runs, func(first uint64, run failure) bool {
		return began.Sub(run.at) > f.wait(run, isDamaged(first))
	})
}

// Newest returns the error of the run that failed last, nil for none.
func (f Failures) Newest() error {
	var last failure
	for _, run := range f.runs {
		if last.err == nil || run.at.After(last.at) {
			last = run
		}
	}
	return last.err
}
