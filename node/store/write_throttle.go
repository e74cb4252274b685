package store

import "time"

const (
	// throttleFrom is how many mergeable segments a shard may have before commits are delayed:
	// twice as many as merging leaves. Each further segment adds to the delay, until merges keep
	// up.
	throttleFrom = 24
	// throttleNsPerRow is the delay of a commit for each of its rows and each segment above
	// throttleFrom; maxThrottle is the longest delay.
	throttleNsPerRow = 100
	maxThrottle      = 100 * time.Millisecond
)

// setBacklog notes by how many mergeable segments the fullest shard exceeds throttleFrom.
func (s *Store) setBacklog() {
	most := 0
	for _, sh := range s.all {
		for part := range mergeable(sh.State.Load().Sealed) {
			count := 0
			for _, seg := range part {
				if int64(seg.Meta.Rows) < limitOf(seg)/4 && seg.File.Size() < maxMergedBytes/4 {
					count++ // larger ones will not be merged any more
				}
			}
			most = max(most, count)
		}
	}
	s.backlog.Store(int64(max(0, most-throttleFrom)))
}

// throttle delays a commit of this number of rows while merges are behind.
func (s *Store) throttle(rows int) {
	over := s.backlog.Load()
	if over == 0 {
		return
	}
	delay := min(maxThrottle, time.Duration(over*throttleNsPerRow*int64(rows)))
	s.counters.throttledNs.Add(int64(delay))
	select {
	case <-time.After(delay):
	case <-s.stop:
	}
}
