package manifest

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// NewTimeline draws the timeline that begins at an acq.
func NewTimeline(fromNs int64) record.Timeline {
	var id [8]byte
	for binary.LittleEndian.Uint64(id[:]) == 0 {
		_, _ = rand.Read(id[:]) // never fails
	}
	return record.Timeline{ID: binary.LittleEndian.Uint64(id[:]), FromNs: fromNs}
}

// applyLineage adds the timelines of an edit.
func (m *Manifest) applyLineage(e *Edit) error {
	for _, t := range e.Lineage {
		if t.ID == 0 {
			return errors.New("it begins a timeline without an id")
		}
		m.Lineage = m.Lineage.With(t)
	}
	return nil
}

// BeginTimeline makes the next edit of the manifest say that acqs from fromNs on are allocated by
// this process. fromNs is up to where the directory itself holds all: a lease beyond it may be of
// what the directory lost. Replicas have no timelines: other replicas notice what one of them lost.
func (m *Manifest) BeginTimeline(fromNs int64) {
	if !m.Replicated {
		t := NewTimeline(fromNs)
		m.nextTimeline = &t
	}
}

// BeginsTimeline reports whether the next edit begins a timeline.
func (m *Manifest) BeginsTimeline() bool { return m.nextTimeline != nil }

// Timelines returns the lineage with the timeline that the next edit begins.
func (m *Manifest) Timelines() record.Lineage {
	if m.nextTimeline == nil {
		return slices.Clone(m.Lineage)
	}
	return m.Lineage.With(*m.nextTimeline)
}
