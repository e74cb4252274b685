package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"

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
