package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
)

var (
	// ErrReplicated means that a store is replicated: it follows the log of its group, and takes
	// changes from there only.
	ErrReplicated = errors.New("this store is a replica, which takes no changes of its own; " +
		"propose them to its group")
	// ErrNotReplicated means that a store does not follow the log of the group.
	ErrNotReplicated = errors.New("this store is not a replica of the group")
)

func appliedEntry(at acqtime.Applied) wal.Entry {
	return layout.AppliedEntry(at.Index, at.NextNs)
}

// checkGroup refuses options that no replica can have.
func (o *Options) checkGroup() error {
	if o.Group == "" {
		return nil
	}
	if id, err := hex.DecodeString(o.Group); err != nil || len(id) != mirror.IdentityBytes {
		return fmt.Errorf("store: Options.Group is %q; take %d hex digits", o.Group,
			2*mirror.IdentityBytes)
	}
	if o.Shards != 1 {
		return fmt.Errorf("store: Options.Shards is %d; a replica has one", o.Shards)
	}
	return nil
}

// checkRole refuses to open a replica as a stand-alone store, and the reverse: changes that the
// other replicas do not get would part it from them for good.
func checkRole(m *manifest.Manifest, opt *Options) error {
	switch {
	case opt.keepSnapshot || m.Replicated == (opt.Group != "") &&
		(opt.Group == "" || opt.Group == m.Store):
		return nil
	case opt.Group == "":
		return fmt.Errorf("open %s: %w", opt.Dir, ErrReplicated)
	case m.Replicated:
		return fmt.Errorf("open %s: %w %s but of %s", opt.Dir, ErrNotReplicated, opt.Group, m.Store)
	}
	return fmt.Errorf("open %s: %w %s but one of its own", opt.Dir, ErrNotReplicated, opt.Group)
}

// refuseReplicated returns ErrReplicated unless the store takes changes of its own.
func (s *Store) refuseReplicated() error {
	if s.replicated {
		return ErrReplicated
	}
	return nil
}

// Applied returns the index of the last command that was applied: those from the next one on are
// wanted.
func (s *Store) Applied() uint64 { return s.lastApplied().Index }

// LeaseHorizon lets the horizon advance to an acq once the command at an index is applied. It is a
// lease by the group's leader: each command after that one assigns acqs from there on.
func (s *Store) LeaseHorizon(index uint64, horizonNs int64) {
	if s.oracle.GrantLease(index, horizonNs) {
		s.feeds.Passed(s.oracle.CurrentHorizon())
	}
}

// LogHorizon returns the horizon of a replica by its log alone, without leases. For a copy it is at
// least the horizon that the replica had before.
func (s *Store) LogHorizon() int64 { return s.oracle.LogHorizon() }

// Durable returns the index of a command through which the store survives a loss of power.
func (s *Store) Durable() uint64 { return s.durable.Load() }

// Sync makes durable what was applied before the call.
//
// Errors: ErrClosed; wal.ErrFailed, for ever.
func (s *Store) Sync() error {
	if s.closed.Load() {
		return ErrClosed
	}
	return s.syncApplied()
}

func (s *Store) syncApplied() error {
	at := s.lastApplied()
	if err := s.log.Sync(); err != nil {
		return err
	}
	s.recordDurable(at.Index)
	return nil
}

func (s *Store) recordDurable(index uint64) {
	for {
		old := s.durable.Load()
		if index <= old || s.durable.CompareAndSwap(old, index) {
			return
		}
	}
}

func (s *Store) lastApplied() acqtime.Applied {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	return s.applied
}

// saveWriters makes the file of writers hold the results that the log does, and returns the edit
// after which files of the log may go. What the file says of a replica, and the edit, must not be
// ahead of what is left of the log after a loss of power. The caller holds manifestMu.
func (s *Store) saveWriters() (manifest.Edit, error) {
	if !s.replicated {
		now := s.oracle.CurrentHorizon() // of a write group in flight nothing may be on disk yet
		s.writers.Expire(now)
		return manifest.Edit{NextAcqNs: now}, s.writers.Save(s.opt.Dir)
	}
	s.applyMu.Lock()
	at := s.applied
	s.writers.Expire(at.NextNs)
	table := s.writers.Encode(math.MaxInt64)
	s.applyMu.Unlock()
	e := manifest.Edit{NextAcqNs: at.NextNs, Applied: &at}
	if err := s.syncApplied(); err != nil {
		return e, err
	}
	return e, writers.Replace(s.opt.Dir, table)
}

// syncReplica makes the log of a replica durable, that of other stores is. A segment is not live
// before: rows of commands that the store does not know of after a loss of power would come twice.
func (s *Store) syncReplica() error {
	if !s.replicated {
		return nil
	}
	return s.syncApplied()
}
