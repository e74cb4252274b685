package store

import "github.com/pentad-db/pentad/node/store/tombstone"

// publishTombstones makes what the manifest says of events visible to scans. The caller holds
// manifestMu.
func (s *Store) publishTombstones() {
	m := s.manifest
	events := s.everyEvent()
	s.tombstones.Store(tombstone.NewSet(events, m.Policies, m.Steps.Held))
	s.described.markEvents(events, s.oracle.NextNs())
	s.trackLogRemovals()
}
