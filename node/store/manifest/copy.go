package manifest

import (
	"github.com/pentad-db/pentad/node/store/event"
)

// Copy says in the manifest of which store a store is a copy.
type Copy struct {
	Store string `json:"store"` // identity
	// Timeline of that store at the end of the last range, or of one that a crash cut short.
	Timeline uint64    `json:"timeline,string,omitempty"`
	Box      event.Box `json:"box"` // what of it
	// FirstLog is the log file with which the copy began. Older ones leased horizons of the empty
	// store that it was before.
	FirstLog uint64 `json:"first_log"`
	// PriorHorizonNs is the horizon that a replica had before, which holds again once it is
	// promoted.
	PriorHorizonNs int64 `json:"void_ns,omitempty"`
}

// applyCopy begins or ends the copy as an edit says. The clock of a copy starts again from 0.
func (m *Manifest) applyCopy(e *Edit) {
	if e.Copy != nil {
		if m.Copy == nil {
			m.NextAcqNs = 0
		}
		m.Copy = e.Copy
	}
	if e.Promote {
		m.Copy = nil
	}
}
