package store

import (
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/store/retention"
)

// retentionEdit is the edit that sets a policy, or removes it.
func (m *manifest) retentionEdit(r *retention.Rule, at retention.Moment) (edit, error) {
	sc := retention.Scope{CID: r.CID, MOID: r.MOID}
	i, known := m.findPolicy(sc)
	p := retention.NewPolicy(r)
	if known {
		p = m.policies[i]
	}
	switch {
	case r.Drops() && (!known || p.Removed()):
		return edit{}, fmt.Errorf("%w for %v", retention.ErrNoPolicy, sc)
	case !known && len(m.policies) >= retention.MaxPolicies:
		return edit{}, ErrTooManyEvents
	}
	p.MaxCapAgeNs, p.MaxAcqAgeNs, p.DelayNs = r.MaxCapAgeNs, r.MaxAcqAgeNs, r.DelayNs
	if r.Drops() {
		p.Held = false
	}
	if !m.steps.Held || r.Drops() {
		p.Hide(at, true)
	}
	if p.IsEmpty() {
		return edit{DropPolicies: []retention.Scope{sc}}, nil
	}
	return edit{Policies: []retention.Policy{p}}, nil
}

// stepEdit is the edit of a step: of the policies whose floors are far enough from where they
// belong, or only of how late it is; empty when nothing is due.
func (m *manifest) stepEdit(at retention.Moment) (e edit) {
	e.Policies, e.Time = retention.Step(m.policies, m.steps, at)
	return e
}

func (m *manifest) findPolicy(sc retention.Scope) (at int, known bool) {
	return slices.BinarySearchFunc(m.policies, sc,
		func(p retention.Policy, sc retention.Scope) int {
			return p.Scope.Compare(sc)
		})
}

// applyPolicies changes policies as an edit says.
func (m *manifest) applyPolicies(e *edit) {
	for _, p := range e.Policies {
		if at, known := m.findPolicy(p.Scope); known {
			m.policies[at] = p
		} else {
			m.policies = slices.Insert(m.policies, at, p)
		}
	}
	for _, sc := range e.DropPolicies {
		if at, known := m.findPolicy(sc); known {
			m.policies = slices.Delete(m.policies, at, at+1)
		}
	}
}

// holdEdit is the edit of a hold. One that changes nothing is empty.
func (m *manifest) holdEdit(h *retention.Hold, acqNs int64) (e edit, err error) {
	now := m.steps
	if h.TimeNs != 0 {
		now.TimeNs = h.TimeNs
	}
	if h.All {
		now.Held = h.Action != retention.HoldResume
	}
	if now != m.steps {
		e.Time = &now
	}
	if !h.All {
		at, known := m.findPolicy(retention.Scope{CID: h.CID, MOID: h.MOID})
		if !known || m.policies[at].Removed() {
			return edit{}, fmt.Errorf("%w for %v", retention.ErrNoPolicy,
				retention.Scope{CID: h.CID, MOID: h.MOID})
		}
		if p := m.policies[at]; p.Hold(h, acqNs) {
			e.Policies = append(e.Policies, p)
		}
		return e, nil
	}
	for _, p := range m.policies {
		if p.Hold(h, acqNs) {
			e.Policies = append(e.Policies, p)
		}
	}
	return e, nil
}
