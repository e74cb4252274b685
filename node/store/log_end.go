package store

import (
	"fmt"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/wal"
)

// progressEntry is the log entry that says how far a store is: below which acq none is allocated
// any more, or of a replica which command was applied last.
func (s *Store) progressEntry(ns int64, closedCleanly bool) wal.Entry {
	if s.replicated {
		return appliedEntry(s.lastApplied())
	}
	return layout.NextAcqEntry(ns, closedCleanly)
}

// progressEntries are the log entries of an append without rows: how many lines the manifest has,
// so that the loss of its end is noticed, and the progress of the store.
func (s *Store) progressEntries(ns int64, closedCleanly bool) []wal.Entry {
	s.manifestMu.Lock()
	n := s.manifest.Number
	s.manifestMu.Unlock()
	return []wal.Entry{layout.ManifestLinesEntry(n), s.progressEntry(ns, closedCleanly)}
}

// recordLogEnd makes the manifest name the last append of the log that is durable, so that the loss
// of its newest files, or of its end, is noticed. Without space it is left undone.
func (s *Store) recordLogEnd() error {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	if s.opt.keepSnapshot || s.manifest.SyncedAppend >= s.log.LastSynced() ||
		s.manifest.ErrUnwrittenAfter() != nil {
		return nil
	}
	if err := s.manifest.Append(manifest.Edit{}); err != nil && !durable.IsNoSpace(err) {
		return fmt.Errorf("note the end of the log: %w", err)
	}
	return nil
}

// logEnd is how far the log was at some time.
type logEnd struct {
	appended uint64 // the last that is durable
	files    int
}

// recordQuietLogEnd records the end of a log that was written and is not any more since an earlier
// time, and of one that began a new file since: what is not noted is at most a file. It costs no
// put a sync of its own.
func (s *Store) recordQuietLogEnd(before logEnd) (logEnd, error) {
	now := logEnd{s.log.LastSynced(), s.log.Stats().Files}
	if now.appended == before.appended || now.files != before.files {
		return now, s.recordLogEnd()
	}
	return now, nil
}
