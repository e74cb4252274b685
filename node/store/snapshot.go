package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/journal"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/wal"
)

// ErrExists means that a directory that was to be made is there.
var ErrExists = errors.New("it exists already; take another name or remove it")

// Snapshot makes dir a store directory that holds every row that was acknowledged before the call:
// hard links of all files, whatever their size, so dir must lie on the same file system. Writes
// wait for as long as the links take. dir appears whole or not at all, may be copied elsewhere,
// and opens by itself.
//
// Errors: ErrExists, ErrClosed, and those of the file system; a log that failed (wal.ErrFailed).
func (s *Store) Snapshot(ctx context.Context, dir string) (layout.Snapshot, error) {
	began := time.Now()
	info := layout.Snapshot{CreatedNs: s.opt.Now()}
	if s.closed.Load() {
		return info, ErrClosed
	}
	if _, err := os.Lstat(dir); err == nil {
		return info, fmt.Errorf("snapshot %s: %w", dir, ErrExists)
	}
	tmp := dir + ".tmp"
	err := os.RemoveAll(tmp) // of a crash
	if err == nil {
		err = durable.MakeDir(filepath.Join(tmp, layout.LogDir))
	}
	if err == nil {
		err = s.snapshotTo(ctx, tmp, &info)
	}
	if err == nil {
		info.TookNs = int64(time.Since(began))
		err = finishSnapshot(tmp, dir, &info)
	}
	if err != nil {
		return info, fmt.Errorf("snapshot %s: %w", dir, errors.Join(err, os.RemoveAll(tmp)))
	}
	return info, nil
}

func (s *Store) snapshotTo(ctx context.Context, tmp string, info *layout.Snapshot) error {
	if err := s.syncReplica(); err != nil { // what is left of it to sync holds up commits
		return err
	}
	var failed error
	var manifest, writers []byte
	err := s.onCommitter(ctx, func() {
		if !s.replicated && s.oracle.DurableNs() < s.oracle.NextNs() {
			if failed = s.logLease(); failed != nil { // the store must not know less than this
				return
			}
		}
		info.AcqNs, info.Index = s.oracle.NextNs(), s.Applied()
		writers = s.writers.Encode(info.AcqNs)
		manifest, failed = s.linkFiles(tmp, info)
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if err := durable.ReplaceFile(filepath.Join(tmp, layout.WritersFile), writers); err != nil {
		return err
	}
	return durable.ReplaceFile(filepath.Join(tmp, layout.ManifestFile), manifest)
}

// linkFiles links what is live now and returns the manifest of the links. No log file and no
// segment that is live goes meanwhile.
func (s *Store) linkFiles(tmp string, info *layout.Snapshot) ([]byte, error) {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	for _, meta := range s.manifest.Live {
		path := s.segmentPath(meta.ID)
		if err := os.Link(path, filepath.Join(tmp, layout.SegmentName(meta.ID))); err != nil {
			return nil, fmt.Errorf("link segment: %w", err)
		}
	}
	info.Segments = len(s.manifest.Live)
	m := *s.manifest
	m.NextAcqNs, m.Applied = info.AcqNs, s.lastApplied()
	end := s.progressEntry(info.AcqNs, true)
	return m.Snapshot(), s.log.LinkTo(filepath.Join(tmp, layout.LogDir), []wal.Entry{end})
}

// finishSnapshot makes a snapshot durable and gives it its name.
func finishSnapshot(tmp, dir string, info *layout.Snapshot) error {
	var err error
	if info.Bytes, err = bytesIn(tmp); err != nil {
		return err
	}
	if err := durable.SyncDir(filepath.Join(tmp, layout.LogDir)); err != nil {
		return err
	}
	name := filepath.Join(tmp, layout.SnapshotFile)
	if err := durable.ReplaceFile(name, journal.AppendLine(nil, info)); err != nil {
		return err // which syncs tmp
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// bytesIn adds up the sizes of the files in a directory and below.
func bytesIn(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// OpenSnapshot opens a snapshot to be read and backed up. It stays a snapshot of its store, where
// Open makes a stand-alone store of it, and nothing is sealed or merged.
func OpenSnapshot(ctx context.Context, dir string) (*Store, Report, error) {
	return Open(ctx, Options{Dir: dir, SealRows: math.MaxInt, LogFiles: math.MaxInt,
		HeadBytes: math.MaxInt64, keepSnapshot: true})
}

// detachSnapshot makes a snapshot that is opened a stand-alone store: what is put from now on is no
// part of the history that it was taken of. That of a replica is opened as one, which goes on with
// the log of its group.
func (s *Store) detachSnapshot() error {
	name := filepath.Join(s.opt.Dir, layout.SnapshotFile)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) || s.opt.keepSnapshot {
		return nil
	}
	if !s.replicated {
		if err := s.manifest.Append(manifest.Edit{Store: manifest.NewStoreID()}); err != nil {
			return err
		}
	}
	if err := os.Remove(name); err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	return nil
}
