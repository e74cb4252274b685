package store

import (
	"iter"
	"maps"
	"time"
)

// nextRun returns the segments that are to be rewritten next: those with purged rows first,
// because callers wait for these to be gone. An error is of looking into the run.
func (s *Store) nextRun(failed failedRuns) (*shard, []*sealedSegment, error) {
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
func (s *Store) nextMerge(failed failedRuns) (*shard, []*sealedSegment) {
	var best []*sealedSegment
	var of *shard
	h := s.tombstones.Load()
	for _, sh := range s.all {
		for part := range undamaged(sh.state.Load().sealed) {
			for _, seg := range part {
				seg.noteWindow(h)
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
func dueRun(sealed []*sealedSegment, may func(first *sealedSegment) bool) []*sealedSegment {
	for level := range 16 {
		most := int64(1) << (2 * level) // rows of a segment of this level at most
		for from := range sealed {
			to, rows, bytes, largest := from, int64(0), int64(0), int64(0)
			for to < len(sealed) && to-from < 2*mergeFanIn {
				more := int64(sealed[to].meta.Rows)
				bytes += sealed[to].file.Size()
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
func undamaged(sealed []*sealedSegment) iter.Seq[[]*sealedSegment] {
	return func(yield func([]*sealedSegment) bool) {
		from := 0
		for i, seg := range sealed {
			if !seg.damaged.Load() {
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

func rowsOf(run []*sealedSegment) int64 {
	n := int64(0)
	for _, seg := range run {
		n += int64(seg.meta.Rows)
	}
	return n
}

// mostMergeable returns how many segments the shard has that has most of those that merges still
// make fewer.
func mostMergeable(all []*shard) int {
	most := 0
	for _, sh := range all {
		for part := range mergeable(sh.state.Load().sealed) {
			count := 0
			for _, seg := range part {
				if int64(seg.meta.Rows) < limitOf(seg)/4 && seg.file.Size() < maxMergedBytes/4 {
					count++ // larger ones will not be merged any more
				}
			}
			most = max(most, count)
		}
	}
	return most
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
func (f failedRuns) may(first *sealedSegment) bool {
	run, failed := f.runs[first.meta.ID]
	retry := f.retry
	if first.damaged.Load() {
		retry = max(retry, damagedRetry)
	}
	return !failed || time.Since(run.at) > retry
}

// note remembers how the merge of a run ended. What was merged is not there to be tried again.
func (f failedRuns) note(run []*sealedSegment, err error) {
	if err != nil {
		f.runs[run[0].meta.ID] = failedRun{time.Now(), err}
		return
	}
	for _, seg := range run {
		delete(f.runs, seg.meta.ID)
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
