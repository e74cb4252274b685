package store

import "github.com/pentad-db/pentad/node/store/mergepolicy"

// nextRun returns the segments that are to be rewritten next: those with purged rows first,
// because callers wait for these to be gone. An error is of looking into the run.
func (s *Store) nextRun(failed mergepolicy.Failures) (*shard, []*sealedSegment, error) {
	if sh, run, err := s.nextPurged(failed); run != nil {
		return sh, run, err
	}
	if sh, run := s.nextMerge(failed); run != nil {
		return sh, run, nil
	}
	return s.nextExpired(failed)
}

// nextMerge returns the smallest run of segments that is due, without runs that failed lately.
func (s *Store) nextMerge(failed mergepolicy.Failures) (of *shard, best []*sealedSegment) {
	rows := int64(0)
	h := s.tombstones.Load()
	for _, sh := range s.all {
		sealed := sh.state.Load().sealed
		for _, seg := range sealed {
			if !seg.damaged.Load() {
				seg.noteWindow(h)
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
func policyOf(sealed []*sealedSegment, failed mergepolicy.Failures) []mergepolicy.Segment {
	all := make([]mergepolicy.Segment, len(sealed))
	for i, seg := range sealed {
		damaged := seg.damaged.Load()
		all[i] = mergepolicy.Segment{Rows: int64(seg.meta.Rows), Bytes: seg.file.Size(),
			MaxRows: limitOf(seg), Newest: mergepolicy.Window{FromNs: seg.meta.LastAcqNs,
				ToNs: seg.meta.LastAcqNs}, Damaged: damaged,
			Left: !failed.May(seg.meta.ID, damaged)}
		if w := seg.window.Load(); w != nil {
			all[i].Newest = *w
		}
	}
	return all
}

// mostMergeable returns how many segments the shard has that has most of those that merges still
// make fewer.
func mostMergeable(all []*shard) (most int) {
	for _, sh := range all {
		sealed := policyOf(sh.state.Load().sealed, mergepolicy.Failures{})
		most = max(most, mergepolicy.Mergeable(sealed))
	}
	return most
}

// idsOf returns the ids of segments.
func idsOf(run []*sealedSegment) (ids []uint64) {
	for _, seg := range run {
		ids = append(ids, seg.meta.ID)
	}
	return ids
}
