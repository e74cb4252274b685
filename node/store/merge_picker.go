package store

import (
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/shards"
)

// nextRun returns the segments that are to be rewritten next: those with purged rows first,
// because callers wait for these to be gone. An error is of looking into the run.
func (s *Store) nextRun(failed mergepolicy.Failures) (*shards.Shard, []*shards.Segment, error) {
	if sh, run, err := s.nextPurged(failed); run != nil {
		return sh, run, err
	}
	if sh, run := s.nextMerge(failed); run != nil {
		return sh, run, nil
	}
	return s.nextExpired(failed)
}

// nextMerge returns the smallest run of segments that is due, without runs that failed lately.
func (s *Store) nextMerge(failed mergepolicy.Failures) (of *shards.Shard, best []*shards.Segment) {
	rows := int64(0)
	t := s.tombstones.Load()
	for _, sh := range s.allShards {
		sealed := sh.State.Load().Sealed
		for _, seg := range sealed {
			if !seg.Damaged.Load() {
				recordWindow(seg, t)
			}
		}
		run := mergepolicy.Due(policyOf(sealed, failed))
		if !run.IsNone() && (best == nil || run.Rows < rows) {
			of, best, rows = sh, sealed[run.From:run.To], run.Rows
		}
	}
	return of, best
}

// policyOf returns what the choice of a merge depends on.
func policyOf(sealed []*shards.Segment, failed mergepolicy.Failures) []mergepolicy.Segment {
	all := make([]mergepolicy.Segment, len(sealed))
	for i, seg := range sealed {
		damaged := seg.Damaged.Load()
		all[i] = mergepolicy.Segment{Rows: int64(seg.Meta.Rows), Bytes: seg.File.Size(),
			MaxRows: mergeLimit(seg), Newest: mergepolicy.Window{FromNs: seg.Meta.LastAcqNs,
				ToNs: seg.Meta.LastAcqNs}, Damaged: damaged, Carried: seg.Meta.CarriedRows > 0,
			FailedLately: !failed.MayRetry(seg.Meta.ID, damaged)}
		if w := seg.Window.Load(); w != nil {
			all[i].Newest = *w
		}
	}
	return all
}

// largestBacklog returns the largest backlog of merges that a shard has, in segments.
func largestBacklog(all []*shards.Shard) (most int) {
	for _, sh := range all {
		sealed := policyOf(sh.State.Load().Sealed, mergepolicy.Failures{})
		most = max(most, mergepolicy.Backlog(sealed))
	}
	return most
}

// idsOf returns the ids of segments.
func idsOf(run []*shards.Segment) (ids []uint64) {
	for _, seg := range run {
		ids = append(ids, seg.Meta.ID)
	}
	return ids
}
