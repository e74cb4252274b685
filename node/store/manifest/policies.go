package manifest

import (
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/store/retention"
)

// RetentionEdit is the edit that sets a policy, or removes it.
func (m *Manifest) RetentionEdit(r *retention.Rule, at retention.StepTime) (Edit, error) {
	sc := retention.Scope{CID: r.CID, MOID: r.MOID}
	i, known := m.FindPolicy(sc)
	p := retention.NewPolicy(r)
	if known {
		p = m.Policies[i]
	}
	switch {
	case r.Drops() && (!known || p.Removed()):
		return Edit{}, fmt.Errorf("%w for %v", retention.ErrNoPolicy, sc)
	case !known && len(m.Policies) >= retention.MaxPolicies:
		return Edit{}, ErrTooManyEvents
	}
	p.MaxCapAgeNs, p.MaxAcqAgeNs, p.DelayNs = r.MaxCapAgeNs, r.MaxAcqAgeNs, r.DelayNs
	if r.Drops() {
		p.Held = false
	}
	if !m.Steps.Held || r.Drops() {
		p.Hide(at, true)
	}
	if p.IsEmpty() {
		return Edit{DropPolicies: []retention.Scope{sc}}, nil
	}
	return Edit{Policies: []retention.Policy{p}}, nil
}

// StepEdit is the edit of a step: of the policies whose floors are far enough from where they
// belong, or only of how late it is; empty when nothing is due.
func (m *Manifest) StepEdit(at retention.StepTime) (e Edit) {
	e.Policies, e.Steps = retention.Step(m.Policies, m.Steps, at)
	return e
}

// FindPolicy returns the index of the policy of a scope, or where one would be.
func (m *Manifest) FindPolicy(sc retention.Scope) (at int, known bool) {
	return slices.BinarySearchFunc(m.Policies, sc,
		func(p retention.Policy, sc retention.Scope) int {
			return p.Scope.Compare(sc)
		})
}

// applyPolicies changes policies as an edit says.
func (m *Manifest) applyPolicies(e *Edit) {
	for _, p := range e.Policies {
		if at, known := m.FindPolicy(p.Scope); known {
			m.Policies[at] = p
		} else {
			m.Policies = slices.Insert(m.Policies, at, p)
		}
	}
	for _, sc := range e.DropPolicies {
		if at, known := m.FindPolicy(sc); known {
			m.Policies = slices.Delete(m.Policies, at, at+1)
		}
	}
}

// HoldEdit is the edit of a hold. One that changes nothing is empty.
func (m *Manifest) HoldEdit(h *retention.Hold, acqNs int64) (e Edit, err error) {
	now := m.Steps
	if h.TimeNs != 0 {
		now.TimeNs = h.TimeNs
	}
	if h.All {
		now.Held = h.Action != retention.HoldResume
	}
	if now != m.Steps {
		e.Steps = &now
	}
	if !h.All {
		at, known := m.FindPolicy(retention.Scope{CID: h.CID, MOID: h.MOID})
		if !known || m.Policies[at].Removed() {
			return Edit{}, fmt.Errorf("%w for %v", retention.ErrNoPolicy,
				retention.Scope{CID: h.CID, MOID: h.MOID})
		}
		if p := m.Policies[at]; p.Hold(h, acqNs) {
			e.Policies = append(e.Policies, p)
		}
		return e, nil
	}
	for _, p := range m.Policies {
		if p.Hold(h, acqNs) {
			e.Policies = append(e.Policies, p)
		}
	}
	return e, nil
}
