package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/wal"
)

// maxClockWait is how long Open waits for the wall clock to pass the last lease. A clock that
// is further behind was set back: acq then goes on from the lease.
const maxClockWait = 2 * time.Second

// recoverState brings a locked directory into memory: manifest, sealed segments, writers, then the
// log replayed onto them.
func (s *Store) recoverState(ctx context.Context, report *Report, fileNs int64) error {
	var err error
	if s.manifest, report.ManifestCut, err = manifest.Open(s.opt.Dir, s.opt.Shards,
		s.opt.Group); err != nil {
		return err
	}
	if err := checkRole(s.manifest, &s.opt); err != nil {
		return err
	}
	s.replicated = s.manifest.Replicated
	s.recordSlots()
	if err := s.detachSnapshot(); err != nil {
		return err
	}
	s.shards, s.allShards = shards.New(s.manifest.Shards, s.opt.HeadShards)
	s.nextID.Store(s.manifest.NextID)
	if report.RemovedFiles, err = s.removeLeftovers(); err != nil {
		return err
	}
	if err := s.openSegments(); err != nil {
		return err
	}
	for _, g := range s.manifest.EmptyLSNRanges {
		s.allShards[g.Shard].SkipTo(g.LastLSN)
	}
	s.publishTombstones()
	if err := s.checkComplete(); err != nil {
		return err
	}
	if err := s.writers.Load(s.opt.Dir); err != nil {
		return err
	}
	r := replay{store: s, report: report, nextAcqNs: s.manifest.NextAcqNs}
	if s.opt.Replaying != nil {
		r.allBytes = logBytes(s.opt.Dir)
	}
	r.advance(s.manifest.Applied)
	if s.manifest.Copy == nil { // else the rows before them may be still to come
		// The log says so, too, unless its end was lost.
		r.nextAcqNs = max(r.nextAcqNs, s.manifest.LastEvent()+1)
	}
	s.retentionClock.Stepped(s.manifest.Steps)
	s.log, report.Log, err = wal.Open(filepath.Join(s.opt.Dir, layout.LogDir),
		wal.Options{Durable: s.manifest.SyncedAppend, Oldest: s.manifest.FirstLogFile}, r.entry)
	if err != nil {
		return err
	}
	s.manifest.LogEnd = s.log.LastSynced
	if r.manifestLines > s.manifest.Number {
		name := filepath.Join(s.opt.Dir, layout.ManifestFile)
		return corrupt(name, s.manifest.Size(), fmt.Sprintf("it ends with line %d, and had "+
			"%d lines when the log was written: its end is missing", s.manifest.Number,
			r.manifestLines))
	}
	if err := s.recordFirstLogFile(); err != nil {
		return err
	}
	s.manifest.BeginTimeline(r.nextAcqNs)
	r.insertAll()
	if err := s.startClock(ctx, &r, fileNs); err != nil {
		return err
	}
	if floor := s.oracle.NextNs(); floor > 0 && s.manifest.Steps.TimeNs == 0 {
		// What the clock reads now may be years less than that, and steps would go on from there.
		s.retentionClock.SetReference(max(1, floor-2*acqtime.LeaseNs))
	}
	s.trackLogRemovals()
	return nil
}

// recordFirstLogFile writes to the manifest with which file the log begins, unless that is there
// already. The loss of the first files of the log is then noticed.
func (s *Store) recordFirstLogFile() error {
	if s.manifest.FirstLogFile != 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(s.log.Files())))
	err := s.manifest.Append(manifest.Edit{FirstLogFile: first})
	if durable.IsNoSpace(err) {
		return nil // the next start tries again
	}
	return err
}

// checkComplete refuses a directory that lost what the manifest implies: it says where the log
// begins; a sealed segment was in the log before, which never is without a file; and WRITERS is
// saved before the log is deleted.
func (s *Store) checkComplete() error {
	if len(s.manifest.Live) > 0 || s.manifest.FirstLogFile != 0 {
		logs, err := os.ReadDir(filepath.Join(s.opt.Dir, layout.LogDir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("list log: %w", err)
		}
		if len(logs) == 0 {
			return corrupt(filepath.Join(s.opt.Dir, layout.LogDir), 0,
				"all log files are missing")
		}
	}
	if s.manifest.NextAcqNs != 0 {
		name := filepath.Join(s.opt.Dir, layout.WritersFile)
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			return corrupt(name, 0, "the file is missing, but the log was deleted")
		}
	}
	return nil
}

// removeLeftovers deletes the files that the manifest does not name: those of seals and merges that
// were cut short, and inputs of merges that have ended.
func (s *Store) removeLeftovers() ([]string, error) {
	live := map[string]bool{}
	for _, m := range s.manifest.Live {
		live[filepath.Base(s.segmentPath(m.ID))] = true
	}
	entries, err := os.ReadDir(s.opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("list directory: %w", err)
	}
	var removed []string
	for _, e := range entries {
		name := e.Name()
		leftover := strings.HasSuffix(name, ".tmp") ||
			strings.HasSuffix(name, layout.SegmentSuffix) && !live[name]
		if !leftover {
			continue
		}
		if err := os.Remove(filepath.Join(s.opt.Dir, name)); err != nil {
			return nil, fmt.Errorf("remove leftover: %w", err)
		}
		removed = append(removed, name)
	}
	return removed, nil
}

func (s *Store) openSegments() error {
	live := slices.Clone(s.manifest.Live)
	slices.SortFunc(live, func(a, b manifest.Segment) int {
		return cmp.Compare(a.FirstLSN, b.FirstLSN)
	})
	for _, m := range live {
		path := s.segmentPath(m.ID)
		seg, err := shards.Open(path, m, s.readahead.Clock)
		if err != nil {
			return shards.WithAffectedRows(path, m, err)
		}
		watermarks, err := index.ParseWatermarks(seg.File.Section(layout.SectionWatermarks))
		if err != nil {
			seg.Unpin()
			return shards.WithAffectedRows(path, m,
				&durable.CorruptError{File: path, Reason: "watermarks", Err: err})
		}
		s.allShards[m.Shard].AddRecovered(seg, watermarks)
	}
	return nil
}

// startClock makes the clock start above everything that was assigned or leased before.
func (s *Store) startClock(ctx context.Context, r *replay, fileNs int64) error {
	floor := r.nextAcqNs
	s.oracle.SetDurableAtOpen(floor)
	if s.manifest.Copy == nil { // else its acqs are those of another node's clock
		s.wallClock.Begin(floor, fileNs)
	}
	if s.replicated {
		s.applied = acqtime.Applied{Index: r.applied, NextNs: floor}
		s.durable.Store(r.applied) // opening has synced the log
		if c := s.manifest.Copy; c != nil {
			s.oracle.RevokeLeases(c.PriorHorizonNs)
		}
		s.oracle.SetApplied(s.applied)
		return nil
	}
	if s.manifest.Copy != nil {
		s.oracle.StartCopy(floor)
		return nil
	}
	if !r.closedCleanly && floor > 0 {
		floor += acqtime.LeaseNs
	}
	if wait := time.Duration(floor - s.opt.Now()); wait > 0 && wait < maxClockWait {
		r.report.WaitedNs = int64(wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.oracle.StartAt(floor)
	return nil
}
