package store

import (
	"fmt"
	"math"

	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/wal"
)

// recordLogFile remembers which log file holds the newest entries of which shards. The committer
// calls it after each append.
func (s *Store) recordLogFile(file uint64, entries []wal.Entry) {
	s.logFilesMu.Lock()
	defer s.logFilesMu.Unlock()
	last := s.logFiles[file]
	if last == nil {
		last = make([]uint64, len(s.allShards))
		s.logFiles[file] = last
	}
	for i := range entries {
		if entries[i].Kind == layout.EntryRows {
			last[entries[i].Shard] = max(last[entries[i].Shard], entries[i].LSN)
		}
	}
}

// oldestNeeded returns the oldest log file that holds an unsealed entry and the shard it is of. The
// caller holds logFilesMu.
func (s *Store) oldestNeeded() (file uint64, sh *shards.Shard) {
	file = math.MaxUint64
	for f, last := range s.logFiles {
		if f > file {
			continue
		}
		for id, other := range s.allShards {
			if last[id] > other.SealedUpTo() {
				file, sh = f, other
				break
			}
		}
	}
	return file, sh
}

// shardKeepingLog returns the shard whose unsealed rows keep the oldest log file, when there are
// too many files and it is not already being sealed.
func (s *Store) shardKeepingLog() *shards.Shard {
	s.logFilesMu.Lock()
	defer s.logFilesMu.Unlock()
	if len(s.logFiles) <= s.opt.LogFiles {
		return nil
	}
	_, sh := s.oldestNeeded()
	if sh == nil || len(sh.State.Load().Immutable) > 0 {
		return nil
	}
	return sh
}

func (s *Store) deleteSealedLogNow() error {
	defer s.wakeMerger() // a purge may be done
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	err := s.deleteSealedLog()
	s.logDeleteErr.Set(logDeleteFailure(err))
	return err
}

// logDeleteFailure says why files of the log that are not needed are still there, nil for none.
func logDeleteFailure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("delete sealed log: %w", err)
}

// deleteSealedLog deletes log files whose rows are all in sealed segments. What else they hold, the
// results of puts and the next acq, is saved first. The caller holds manifestMu.
func (s *Store) deleteSealedLog() error {
	needed, old := s.sealedLogFiles()
	if len(old) == 0 {
		return nil
	}
	e, err := s.saveWriters()
	if err != nil {
		return err
	}
	e.FirstLogFile = needed
	if err := s.manifest.Append(e); err != nil {
		return err
	}
	if err := s.log.Remove(needed); err != nil {
		return err
	}
	s.logFilesMu.Lock()
	defer s.logFilesMu.Unlock()
	for _, f := range old {
		delete(s.logFiles, f)
	}
	return nil
}

// endsOfLogFiles returns the oldest and the newest log file.
func (s *Store) endsOfLogFiles() (oldest, newest uint64) {
	s.logFilesMu.Lock()
	defer s.logFilesMu.Unlock()
	oldest = math.MaxUint64
	for f := range s.logFiles {
		oldest, newest = min(oldest, f), max(newest, f)
	}
	return oldest, newest
}

// hasLoggedRows reports whether a log file up to a number has rows.
func (s *Store) hasLoggedRows(upTo uint64) (has bool) {
	s.logFilesMu.Lock()
	defer s.logFilesMu.Unlock()
	for f, last := range s.logFiles {
		for _, lsn := range last {
			has = has || f <= upTo && lsn > 0
		}
	}
	return has
}

// sealedLogFiles returns the log files whose rows are all in sealed segments, but for the newest,
// and the first that is kept.
func (s *Store) sealedLogFiles() (kept uint64, old []uint64) {
	s.logFilesMu.Lock()
	defer s.logFilesMu.Unlock()
	newest := uint64(0)
	for f := range s.logFiles {
		newest = max(newest, f)
	}
	kept, _ = s.oldestNeeded()
	kept = min(kept, newest)
	for f := range s.logFiles {
		if f < kept {
			old = append(old, f)
		}
	}
	return kept, old
}
