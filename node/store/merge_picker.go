package store

import (
	"iter"
	"maps"
	"time"

	"github.com/pentad-db/pentad/node/store/shards"
)

// nextRun returns the segments that are to be rewritten next: those with purged rows first,
// because callers wait for these to be gone. An error is of looking into the run.
func (s *Store) nextRun(failed failedRuns) (*shards.Shard, []*shards.Segment, error) {
	if sh, run, err := s.nextPurged(failed); run != nil {
		return sh, run, err
	}
	if sh, run := s.nextMerge(failed); run != nil {
		return sh, run, nil
	}
	return s.nextExpired(failed)
}

// nextMerge returns the smallest run of segments that is due, without runs that failed lately.
// Segments of an age window that is over are merged as those of an idle store are.
func (s *Store) nextMerge(failed failedRuns) (*shards.Shard, []*shards.Segment) {
	var best []*shards.Segment
	var of *shards.Shard
	h := s.tombstones.Load()
	for _, sh := range s.all {
		for part := range undamaged(sh.State.Load().Sealed) {
			for _, seg := range part {
				noteWindow(seg, h)
			}
			for same, over := range mergeable(part) {
				run := dueRun(same, failed.may)
				if run == nil && over {
					run = idleRun(same, failed.may)
				}
				if run != nil && (best == nil || rowsOf(run) < rowsOf(best)) {
					best, of = run, sh
				}
			}
		}
	}
	return of, best
}

// dueRun returns mergeFanIn or more neighbours of which none is much larger than the others, and
// whose first one may be tried; the smallest ones first. Rows are then rewritten a logarithmic
// number of times.
func dueRun(sealed []*shards.Segment, may func(first *shards.Segment) bool) []*shards.Segment {
	for level := range 16 {
		most := int64(1) << (2 * level) // rows of a segment of this level at most
		for from := range sealed {
			to, rows, bytes, largest := from, int64(0), int64(0), int64(0)
			for to < len(sealed) && to-from < 2*mergeFanIn {
				more := int64(sealed[to].Meta.Rows)
				bytes += sealed[to].File.Size()
				if more > most || rows+more > limitOf(sealed[from]) || bytes > maxMergedBytes {
					break
				}
				rows += more
				largest = max(largest, more)
				to++
			}
			if to-from >= mergeFanIn && largest <= rows/2 && may(sealed[from]) {
				return sealed[from:to]
			}
		}
	}
	return nil
}

// undamaged yields the neighbours between segments whose damage is known, which no merge can read.
func undamaged(sealed []*shards.Segment) iter.Seq[[]*shards.Segment] {
	return func(yield func([]*shards.Segment) bool) {
		from := 0
		for i, seg := range sealed {
			if !seg.Damaged.Load() {
				continue
			}
			if !yield(sealed[from:i]) {
				return
			}
			from = i + 1
		}
		yield(sealed[from:])
	}
}

func rowsOf(run []*shards.Segment) int64 {
	n := int64(0)
	for _, seg := range run {
		n += int64(seg.Meta.Rows)
	}
	return n
}

// failedRuns are the merges that failed and were not tried again since.
type failedRuns struct {
	retry time.Duration
	runs  map[uint64]failedRun // by the first segment
}

type failedRun struct {
	at  time.Time
	err error
}

// may reports whether the run that begins with a segment may be tried.
func (f failedRuns) may(first *shards.Segment) bool {
	run, failed := f.runs[first.Meta.ID]
	retry := f.retry
	if first.Damaged.Load() {
		retry = max(retry, damagedRetry)
	}
	return !failed || time.Since(run.at) > retry
}

// note remembers how the merge of a run ended. What was merged is not there to be tried again.
func (f failedRuns) note(run []*shards.Segment, err error) {
	if err != nil {
		f.runs[run[0].Meta.ID] = failedRun{time.Now(), err}
		return
	}
	for _, seg := range run {
		delete(f.runs, seg.Meta.ID)
	}
}

// forget drops the runs that a look which began then might have tried: they are not due any more.
func (f failedRuns) forget(began time.Time) {
	maps.DeleteFunc(f.runs, func(_ uint64, run failedRun) bool {
		return began.Sub(run.at) > f.retry
	})
}

// newest returns the error of the run that failed last, nil for none.
func (f failedRuns) newest() error {
	var last failedRun
	for _, run := range f.runs {
		if last.err == nil || run.at.After(last.at) {
			last = run
		}
	}
	return last.err
}
