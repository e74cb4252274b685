package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// newTimeline draws the timeline that begins at an acq.
func newTimeline(fromNs int64) record.Timeline {
	var id [8]byte
	for binary.LittleEndian.Uint64(id[:]) == 0 {
		_, _ = rand.Read(id[:]) // never fails
	}
	return record.Timeline{ID: binary.LittleEndian.Uint64(id[:]), FromNs: fromNs}
}

// applyLineage adds the timelines of an edit.
func (m *manifest) applyLineage(e *edit) error {
	for _, t := range e.Lineage {
		if t.ID == 0 {
			return errors.New("it begins a timeline without an id")
		}
		m.lineage = m.lineage.With(t)
	}
	return nil
}

// beginTimeline makes the next edit of the manifest say that acqs from fromNs on are given by this
// process. fromNs is what the directory itself proves to hold: a lease beyond it may be of what
// the directory lost. Replicas have no timelines: other replicas notice what one of them lost.
func (m *manifest) beginTimeline(fromNs int64) {
	if !m.replicated {
		t := newTimeline(fromNs)
		m.due = &t
	}
}

// timelines returns the lineage with the timeline that the next edit begins.
func (m *manifest) timelines() record.Lineage {
	if m.due == nil {
		return slices.Clone(m.lineage)
	}
	return m.lineage.With(*m.due)
}

// appendLog appends a flush to the log of a store of its own, after the manifest has the timeline
// that it belongs to. The caller is the committer, or Close.
func (s *Store) appendLog(entries []segment.Entry) (file uint64, err error) {
	if !s.begun {
		s.manifestMu.Lock()
		err = s.beginLogging()
		s.manifestMu.Unlock()
	}
	if err != nil {
		return 0, s.log.NoteLack(err, 0)
	}
	return s.log.Append(entries)
}

// beginLogging makes the timeline of this process durable, if it is not yet. The caller is the
// committer, or Close, and holds manifestMu.
func (s *Store) beginLogging() error {
	if s.manifest.due != nil {
		if err := s.manifest.append(edit{}); err != nil {
			return fmt.Errorf("begin a timeline: %w", err)
		}
	}
	s.begun = true
	return nil
}

// ProvenHorizon is as [Store.Horizon], of an acq that the log proves: whenever the directory is
// opened again it knows that it had everything below. What is remembered elsewhere of how far
// something is must not be beyond it.
//
// Cost: one small synced write to the log.
func (s *Store) ProvenHorizon(ctx context.Context) (int64, error) {
	h, err := s.Horizon(ctx)
	if err != nil || s.replicated {
		return h, err
	}
	err = s.onCommitter(ctx, func() { h = s.proveHorizon(h) })
	return h, err
}

// proveHorizon makes the log prove a horizon, and returns it, or a lower one when it takes no more.
// The caller is the committer.
func (s *Store) proveHorizon(h int64) int64 {
	if s.clock.Proven() < h {
		_ = s.logLease() // puts say what is wrong with the log
	}
	return min(h, s.clock.Proven())
}
