package store

import "time"

const (
	// calmSegments is how many segments that may be merged with each other a shard may have before
	// commits are slowed down: a few of each of the sizes that merging makes, and as many again.
	// From there on each one more slows them down more, until the merger keeps up.
	calmSegments = 24
	// paceNsPerRow is how much longer a commit takes for each of its rows and each segment above
	// the calm, and maxPace how much longer at most.
	paceNsPerRow = 100
	maxPace      = 100 * time.Millisecond
)

// setBacklog notes by how many segments the shard that has most to merge is above the calm.
func (s *Store) setBacklog() {
	most := 0
	for _, sh := range s.all {
		for part := range together(sh.snapshot.Load().sealed) {
			count := 0
			for _, seg := range part {
				if int64(seg.meta.Rows) < limitOf(seg)/4 && seg.file.Size() < maxMergedBytes/4 {
					count++ // larger ones will not be merged any more
				}
			}
			most = max(most, count)
		}
	}
	s.backlog.Store(int64(max(0, most-calmSegments)))
}

// pace delays a commit of so many rows when merges are behind.
func (s *Store) pace(rows int) {
	over := s.backlog.Load()
	if over == 0 {
		return
	}
	delay := min(maxPace, time.Duration(over*paceNsPerRow*int64(rows)))
	s.counters.pacedNs.Add(int64(delay))
	select {
	case <-time.After(delay):
	case <-s.stop:
	}
}
