package store

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
)

const adviceGone = "what they held is in the memory of this process alone: copy it with pentad " +
	"export or pentad sync before the process ends, then start it with an empty directory or a " +
	"backup"

// settledFor is how long ago a directory must have changed for its time to tell that it has not
// changed since: file systems count in steps of up to 2 s.
const settledFor = 3 * time.Second

// FindLostFiles finds files of the store that were removed, replaced or cut while it is open: it
// would go on to write to a log that has no name. What is not in a segment is written again from
// memory, and where that fails the log fails: no put is acknowledged any more. A segment is
// damaged, and so is every file of a replica, which is replaced as a whole. The lock is taken
// again.
//
// Errors: wal.ErrFailed, once files of a store that is no replica are lost.
// Cost: four calls of the system; when directories have changed, one for each file. To write what
// is lost again takes as long as a seal of everything.
func (s *Store) FindLostFiles(ctx context.Context) error {
	if s.closed.Load() || !s.findingLost.TryLock() {
		return nil
	}
	defer s.findingLost.Unlock()
	lost := slices.DeleteFunc(s.findLost(), isSegment)
	if s.replicated || len(lost) == 0 || ctx.Err() != nil {
		return nil
	}
	if s.log.Failure() == nil {
		if lost = s.writeLost(ctx, lost); len(lost) == 0 || ctx.Err() != nil || s.closed.Load() {
			return nil
		}
	}
	return s.log.FailLost(lost[0])
}

// writeLost writes what is not in a segment again, and returns what is lost still.
func (s *Store) writeLost(
	ctx context.Context, lost []*durable.CorruptError,
) (left []*durable.CorruptError) {
	s.damaged.ForgetOthers()
	for _, d := range lost {
		s.damaged.FoundOther(api.Damage{File: d.File, Reason: d.Reason})
	}
	err := s.writeOthers(ctx)
	left = slices.DeleteFunc(s.findLost(), isSegment)
	if len(left) == 0 && err == nil {
		s.damaged.OthersRewritten()
		return nil
	}
	if len(left) == 0 {
		return lost // they have their names, and not all that was in them
	}
	return left
}

func isSegment(d *durable.CorruptError) bool {
	return strings.HasSuffix(d.File, layout.SegmentSuffix)
}

// findLost returns what of the files is lost, and remembers it.
func (s *Store) findLost() []*durable.CorruptError {
	s.manifestMu.Lock() // what is live, and the files of the log, stay the same meanwhile
	lost := s.findLostSegments()
	s.manifestMu.Unlock()
	s.damaged.SetLost(lost)
	return lost
}

func (s *Store) findLostSegments() (lost []*durable.CorruptError) {
	missing := func(path string, open durable.Opened, size int64) {
		if reason := durable.Lost(path, open, size); reason != "" {
			lost = append(lost, &durable.CorruptError{File: path, Reason: reason})
		}
	}
	at := dirStatOf(s.opt.Dir)
	same := at.sameAs(&s.lookedAt)
	if reason := s.manifest.Lost(); reason != "" {
		name := filepath.Join(s.opt.Dir, layout.ManifestFile)
		lost = append(lost, &durable.CorruptError{File: name, Reason: reason})
	}
	lost = append(lost, s.log.Lost(same)...)
	if same {
		return lost
	}
	if err := s.relock(); err != nil {
		lost = append(lost, &durable.CorruptError{File: filepath.Join(s.opt.Dir, layout.LockFile),
			Reason: "it was removed while the node ran, and cannot be created and locked again: " +
				err.Error()})
	}
	if s.manifest.NextAcqNs != 0 {
		missing(filepath.Join(s.opt.Dir, layout.WritersFile), nil, 0)
	}
	for _, meta := range s.manifest.Live {
		missing(s.segmentPath(meta.ID), nil, 0)
	}
	if len(lost) == 0 && at.settled(time.Now()) {
		s.lookedAt = at
	}
	return lost
}

// relock takes the directory again when its lock was removed, before another process does.
func (s *Store) relock() error {
	if durable.Lost(filepath.Join(s.opt.Dir, layout.LockFile), s.lock, 0) == "" {
		return nil
	}
	f, err := layout.Lock(s.opt.Dir)
	if err != nil {
		return err
	}
	_ = s.lock.Close() // it has no name
	s.lock = f
	return nil
}
