package store

import (
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// copyMeta says in the manifest of which store a store is a copy.
type copyMeta struct {
	Store string  `json:"store"` // identity
	Box   boxMeta `json:"box"`   // what of it
	// FirstLog is the log file with which the copy began. Older ones promised horizons of the empty
	// store that it was before.
	FirstLog uint64 `json:"first_log"`
	// VoidNs is the horizon that a replica had before, which holds again once it is released.
	VoidNs int64 `json:"void_ns,omitempty"`
}

// boxMeta is a box as the manifest has it: cid, mid, moid, cap, acq; null: all.
type boxMeta [record.NumDims][]rangeMeta

func metaOfBox(box *record.Box) (m boxMeta) {
	for d, set := range box {
		for _, r := range set {
			m[d] = append(m[d], rangeMeta{r.From, r.To})
		}
	}
	return m
}

func parseBoxMeta(m *boxMeta) (box record.Box, err error) {
	for d, set := range m {
		for _, r := range set {
			box[d] = append(box[d], record.Range{From: r[0], To: r[1]})
		}
	}
	return box, box.Normalize()
}

func sameBox(a, b *boxMeta) bool {
	for d := range a {
		if !slices.Equal(a[d], b[d]) {
			return false
		}
	}
	return true
}

// applyCopy begins or ends the copy as an edit says. The clock of a copy starts anew.
func (m *manifest) applyCopy(e *edit) {
	if e.Copy != nil {
		if m.copied == nil {
			m.clockNs = 0
		}
		m.copied = e.Copy
	}
	if e.Release {
		m.copied = nil
	}
}

func (p *policyMeta) policy() Policy {
	return Policy{Retention: Retention{CID: p.CID, MOID: p.MOID, MaxCapAgeNs: p.MaxCapAgeNs,
		MaxAcqAgeNs: p.MaxAcqAgeNs}, CapFloorNs: p.CapFloorNs, AcqFloorNs: p.AcqFloorNs,
		CapStepAcqNs: p.CapStepAcqNs, AcqStepAcqNs: p.AcqStepAcqNs}
}

func (p *Policy) meta() policyMeta {
	return policyMeta{scope: scope{p.CID, p.MOID}, MaxCapAgeNs: p.MaxCapAgeNs,
		MaxAcqAgeNs: p.MaxAcqAgeNs, CapFloorNs: p.CapFloorNs, AcqFloorNs: p.AcqFloorNs,
		CapStepAcqNs: p.CapStepAcqNs, AcqStepAcqNs: p.AcqStepAcqNs}
}
