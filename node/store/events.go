package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// allEvents lists erases, purges and the steps of retentions, oldest first. The caller holds
// manifestMu.
func (s *Store) allEvents() []event.Event {
	return slices.DeleteFunc(s.everyEvent(), func(e event.Event) bool {
		return e.Kind == event.Split
	})
}

// everyEvent is allEvents with splits.
func (s *Store) everyEvent() []event.Event {
	all := slices.Clone(s.manifest.Events)
	for i := range s.manifest.Policies {
		all = append(all, s.manifest.Policies[i].Events()...)
	}
	slices.SortStableFunc(all, func(a, b event.Event) int {
		switch {
		case a.AcqNs < b.AcqNs:
			return -1
		case a.AcqNs > b.AcqNs:
			return 1
		}
		return 0
	})
	return all
}

// Events lists erases, purges and the present steps of retentions, oldest first.
func (s *Store) Events() []event.Event {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	return s.allEvents()
}

// Purges lists the purges, oldest first.
func (s *Store) Purges() []event.Event {
	return slices.DeleteFunc(s.Events(), func(e event.Event) bool { return e.Kind != event.Purge })
}

// Erase hides the rows of a box that are there now, in the latest view and in views as of acqs
// after the event: as if they had never been put. Rows put later are visible, and the view of all
// versions shows all. On return the event is durable and every scan that starts later sees it.
//
// Returns: the acq of the event.
// Errors: ErrReplicated; *record.InvalidError; ErrTooManyEvents; ErrClosed; ErrFailed, and when ctx
// ends early: the event may have taken effect or not.
func (s *Store) Erase(ctx context.Context, box record.Box) (acqNs int64, err error) {
	return s.addEvents(ctx, event.Erase, []record.Box{box})
}

// EraseAll is [Store.Erase] of several boxes, each with an event of its own: all or none take
// effect.
//
// Returns: the greatest acq of the events.
func (s *Store) EraseAll(ctx context.Context, boxes []record.Box) (acqNs int64, err error) {
	return s.addEvents(ctx, event.Erase, boxes)
}

// PurgeAll is to [Store.Purge] what EraseAll is to Erase.
func (s *Store) PurgeAll(ctx context.Context, boxes []record.Box) (acqNs int64, err error) {
	return s.addEvents(ctx, event.Purge, boxes)
}

// Purge hides the rows of a box that are there now from every view, and makes the merger remove
// them from disk; see [Store.Purges]. Everything else is as with [Store.Erase].
func (s *Store) Purge(ctx context.Context, box record.Box) (acqNs int64, err error) {
	return s.addEvents(ctx, event.Purge, []record.Box{box})
}

func (s *Store) addEvents(
	ctx context.Context, kind event.Kind, boxes []record.Box,
) (acqNs int64, err error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	if err := s.refuseReplicated(); err != nil {
		return 0, err
	}
	events := make([]event.Event, len(boxes))
	for i, box := range boxes {
		if err := box.Normalize(); err != nil {
			return 0, err
		}
		events[i] = event.Event{Kind: kind, Box: box}
	}
	err = s.changeEvents(ctx, len(events), func(firstNs int64) (manifest.Edit, error) {
		for i := range events {
			acqNs = firstNs + int64(i)
			events[i].AcqNs = acqNs
		}
		return s.manifest.EventEdit(events...)
	})
	return acqNs, err
}

// changeEvents appends an edit with events to the manifest and makes it visible, on the committer.
// The edit gets the first of count acqs of its own; an edit of nothing is not written.
func (s *Store) changeEvents(
	ctx context.Context, count int, build func(acqNs int64) (manifest.Edit, error),
) error {
	var failed error
	err := s.onCommitter(ctx, func() { failed = s.logEdit(count, build) })
	if err != nil {
		return err
	}
	return failed
}

// logEdit is the part of changeEvents on the committer. The horizon stays below the acqs until the
// edit is durable and visible. The log is made to prove that they were allocated, because after a
// crash it alone decides which acqs come next.
func (s *Store) logEdit(count int, build func(acqNs int64) (manifest.Edit, error)) error {
	if s.failed.Err() != nil {
		return s.failed.Err()
	}
	if s.oracle.IsCopy() {
		return ErrIsCopy
	}
	acq := s.oracle.Reserve(count)
	file, err := s.appendLog([]wal.Entry{layout.NextAcqEntry(acq+int64(count), false)})
	if errors.Is(err, durable.ErrNoSpace) {
		s.oracle.Cancel()
	}
	if err != nil {
		return fmt.Errorf("log event: %w", err) // as with a put
	}
	s.recordLogFile(file, nil)
	e, err := s.appendEvents(acq, build)
	if s.failed.Err() == nil {
		s.oracle.EndCommit()
		s.feeds.Changed()
	}
	if err == nil && e.Purges() {
		_ = s.dropPurgedFromLog() // it is tried again; if the log has failed, puts say so
	}
	return err
}

// appendEvents writes the edit to the manifest and makes it visible.
func (s *Store) appendEvents(
	acq int64, build func(acqNs int64) (manifest.Edit, error),
) (manifest.Edit, error) {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	if failed := s.manifest.Err(); failed != nil {
		return manifest.Edit{}, fmt.Errorf("%w: %w", ErrFailed, failed)
	}
	e, err := build(acq)
	if err != nil || !e.ChangesTombstones() {
		return manifest.Edit{}, err
	}
	err = s.manifest.Append(e)
	if s.manifest.Err() != nil {
		// Whether the event is on disk is unknown. Nothing may be put after it, lest it be hidden.
		return manifest.Edit{}, s.failed.Set(fmt.Errorf("%w: %w", ErrFailed, err))
	}
	if err == nil {
		s.publishEdit(&e)
	}
	return e, err
}

// publishEdit makes an edit of events visible. The caller holds manifestMu.
func (s *Store) publishEdit(e *manifest.Edit) {
	if e.Steps != nil {
		s.retentionClock.Stepped(*e.Steps)
	}
	s.publishTombstones()
}

// dropPurgedFromLog sees to it that the rows of purges leave the log: everything is sealed without
// them, and a new file is begun. The caller is the committer.
func (s *Store) dropPurgedFromLog() error {
	for _, sh := range s.allShards {
		s.rotate(sh)
	}
	s.log.Roll()
	file, err := s.appendLog(s.progressEntries(s.oracle.NextNs(), false))
	if err != nil {
		return fmt.Errorf("begin a log file: %w", err)
	}
	s.manifestMu.Lock()
	s.recordLogFile(file, nil)
	for _, e := range s.manifest.Events {
		if _, known := s.firstLogFileAfterPurge[e.AcqNs]; !known && e.Kind.Purges() && !e.Done {
			s.firstLogFileAfterPurge[e.AcqNs] = file
		}
	}
	s.manifestMu.Unlock()
	select { // the log is deleted also when there was nothing to seal
	case s.sealRequests <- sealRequest{done: make(chan error, 1)}:
	case <-s.stop:
	}
	return nil
}

// resumePurges makes the rows leave the log of purges that were unfinished when the store was
// closed, or for which there was no space. The committer calls it.
func (s *Store) resumePurges() {
	if s.opt.keepSnapshot {
		return
	}
	s.manifestMu.Lock()
	due := slices.ContainsFunc(s.manifest.Events, func(e event.Event) bool {
		_, known := s.firstLogFileAfterPurge[e.AcqNs]
		return e.Kind.Purges() && !e.Done && !known
	})
	s.manifestMu.Unlock()
	if due {
		_ = s.dropPurgedFromLog() // puts say what is wrong with the log
	}
}

// finishPurges marks the purges done whose rows no file holds any more. Only the merger calls it,
// when no segment is left that has purged rows.
func (s *Store) finishPurges() error {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	oldest, _ := s.endsOfLogFiles()
	e := manifest.Edit{}
	for _, p := range s.manifest.Events {
		purgedFrom, known := s.firstLogFileAfterPurge[p.AcqNs]
		if p.Kind.Purges() && !p.Done && known && oldest >= purgedFrom && s.purgeApplied(p.AcqNs) {
			e.PurgesDone = append(e.PurgesDone, p.AcqNs)
		}
	}
	if len(e.PurgesDone) == 0 {
		return nil
	}
	if err := s.manifest.Append(e); err != nil {
		return fmt.Errorf("finish purge: %w", err)
	}
	for _, acq := range e.PurgesDone {
		delete(s.firstLogFileAfterPurge, acq)
	}
	s.publishTombstones()
	return nil
}

// purgeApplied reports whether no segment can hold rows that a purge concerns.
func (s *Store) purgeApplied(acqNs int64) bool {
	for _, sh := range s.allShards {
		for _, seg := range sh.State.Load().Sealed {
			if seg.PurgedTo.Load() < acqNs {
				return false
			}
		}
	}
	return true
}
