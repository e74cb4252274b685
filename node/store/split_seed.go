package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/wal"
)

// ErrShards means that a store has several shards, which a replica cannot.
var ErrShards = errors.New("the store has several shards, and a replica has one; copy it into " +
	"the cluster with pentad sync")

// Seed makes dir the state of a new replica that begins with what this store has of some slots:
// records with their acqs, events, retentions, and the results of puts. The replica has
// applied entry 1 of its group's log, which stands for all of that, and gives no acq below those
// that this store assigned or leased. Segments are hard links, from which rows of other slots are
// removed in the background once the replica is open; so dir must be on the same file system. dir
// appears whole or not at all, and the store stays as it is, but for rows that are sealed.
//
// Returns: the least acq that the replica gives.
// Errors: ErrIsCopy, ErrReplicated, ErrShards, ErrClosed; those of Seal and of the file system.
func (s *Store) Seed(
	ctx context.Context, dir, group string, keep slots.Range,
) (nextNs int64, err error) {
	if err := s.seedable(); err != nil {
		return 0, fmt.Errorf("seed of a group: %w", err)
	}
	if err := s.Seal(ctx); err != nil { // logs of a store and of a replica differ
		return 0, err
	}
	tmp := dir + ".tmp"
	err = errors.Join(os.RemoveAll(dir), os.RemoveAll(tmp))
	if err == nil {
		err = durable.MakeDir(filepath.Join(tmp, layout.LogDir))
	}
	if err == nil {
		nextNs, err = s.seedTo(ctx, tmp, group, keep)
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return 0, fmt.Errorf("seed of a group: %w", errors.Join(err, os.RemoveAll(tmp)))
	}
	return nextNs, nil
}

func (s *Store) seedable() error {
	switch {
	case s.closed.Load():
		return ErrClosed
	case s.replicated:
		return ErrReplicated
	case len(s.shards) > 1:
		return fmt.Errorf("%w (it has %d)", ErrShards, len(s.shards))
	case s.IsCopy():
		return ErrIsCopy
	}
	return nil
}

// seedTo writes the files of a seed.
func (s *Store) seedTo(
	ctx context.Context, tmp, group string, keep slots.Range,
) (nextNs int64, err error) {
	var failed error
	var manifest, writers []byte
	at := acqtime.Applied{Index: 1}
	err = s.onCommitter(ctx, func() {
		acq := s.oracle.NextNs()
		at.NextNs = acq + 1
		writers = s.writers.Encode(acq)
		manifest, failed = s.linkSeed(tmp, group, keep, acq, at)
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	log, _, err := wal.Open(filepath.Join(tmp, layout.LogDir), wal.Options{},
		func(uint64, wal.Entry) error { return nil })
	if err != nil {
		return 0, err
	}
	_, err = log.Append([]wal.Entry{appliedEntry(at)})
	if err = errors.Join(err, log.Close()); err != nil {
		return 0, err
	}
	if err := durable.ReplaceFile(filepath.Join(tmp, layout.WritersFile), writers); err != nil {
		return 0, err
	}
	if err := durable.SyncDir(filepath.Join(tmp, layout.LogDir)); err != nil {
		return 0, err
	}
	return at.NextNs, durable.ReplaceFile(filepath.Join(tmp, layout.ManifestFile), manifest)
}

// linkSeed links the segments that are live now, and returns the manifest of a replica that has
// them. The caller is the committer.
func (s *Store) linkSeed(
	tmp, group string, keep slots.Range, acqNs int64, at acqtime.Applied,
) ([]byte, error) {
	for _, sh := range s.allShards {
		if state := sh.State.Load(); len(state.Immutable) > 0 || state.Head.Rows() > 0 {
			return nil, errors.New("rows were put after the store was sealed")
		}
	}
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	for _, meta := range s.manifest.Live {
		path := s.segmentPath(meta.ID)
		if err := os.Link(path, filepath.Join(tmp, layout.SegmentName(meta.ID))); err != nil {
			return nil, fmt.Errorf("link segment: %w", err)
		}
	}
	m := *s.manifest
	m.Store, m.Replicated, m.Applied, m.NextAcqNs = group, true, at, at.NextNs
	m.SyncedAppend, m.FirstLogFile, m.LogEnd = 0, 0, nil // of a log that the seed does not have
	m.Lineage = nil                                      // replicas have none
	if keep != (slots.Range{To: slots.Count}) {
		m.Events = append(m.Events[:len(m.Events):len(m.Events)],
			event.Event{AcqNs: acqNs, Kind: event.Split, KeptSlots: keep})
	}
	return m.Snapshot(), nil
}

// HasData reports whether anything was ever stored, or told, that a new store does not have.
func (s *Store) HasData(ctx context.Context) (holds bool, err error) {
	err = s.onCommitter(ctx, func() {
		s.manifestMu.Lock()
		defer s.manifestMu.Unlock()
		holds = !s.isEmpty() || s.writers.Count() > 0
	})
	return holds, err
}
