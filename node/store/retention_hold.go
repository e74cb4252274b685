package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

// HoldAction says what a hold does. Numbers are for ever.
type HoldAction uint8

// Actions.
const (
	// HoldSteps stops steps, marks and releases of policies, and the removal of what they released.
	HoldSteps HoldAction = 1
	// HoldResume lets them go on.
	HoldResume HoldAction = 2
	// HoldUndo shows again what policies have hidden and not released, and holds them.
	HoldUndo HoldAction = 3
	lastHold            = HoldUndo
)

// Hold stops retentions, lets them go on, or undoes their last steps.
type Hold struct {
	Action    HoldAction
	All       bool   // every policy, also those that are set later; without CID and MOID
	CID, MOID *int32 // of the policy
	// TimeNs is what the time is, by the word of an operator: with HoldResume steps go on from
	// there, and wait for no further evidence. 0: nothing is said of it.
	TimeNs int64
}

func (h *Hold) validate() error {
	r := Retention{CID: h.CID, MOID: h.MOID}
	switch {
	case h.Action == 0 || h.Action > lastHold:
		return badCommand("a hold of action %d", h.Action)
	case h.All && (h.CID != nil || h.MOID != nil):
		return badCommand("a hold of every policy names one")
	case h.TimeNs < 0 || h.TimeNs > lastClockNs || h.TimeNs != 0 && h.Action != HoldResume:
		return badCommand("a hold of action %d says that it is %d", h.Action, h.TimeNs)
	}
	return r.validate()
}

// HoldRetention stops retentions, lets them go on, or undoes what they have hidden and not
// released. It is durable on return.
//
// Errors: as of SetRetention; ErrNoRetention when there is no such policy.
func (s *Store) HoldRetention(ctx context.Context, h Hold) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := cmp.Or(s.own(), h.validate()); err != nil {
		return err
	}
	return s.changeEvents(ctx, 1, func(acqNs int64) (edit, error) {
		return s.manifest.holdEdit(&h, acqNs)
	})
}

// holdEdit is the edit of a hold. One that changes nothing is empty.
func (m *manifest) holdEdit(h *Hold, acqNs int64) (e edit, err error) {
	now := m.steps
	if h.TimeNs != 0 {
		now.TimeNs = h.TimeNs
	}
	if h.All {
		now.Held = h.Action != HoldResume
	}
	if now != m.steps {
		e.Time = &now
	}
	if !h.All {
		at, known := m.findPolicy(scope{h.CID, h.MOID})
		if !known || m.policies[at].removed() {
			return edit{}, fmt.Errorf("%w for %v", ErrNoRetention, scope{h.CID, h.MOID})
		}
		if p := m.policies[at]; p.hold(h, acqNs) {
			e.Policies = append(e.Policies, p)
		}
		return e, nil
	}
	for _, p := range m.policies {
		if p.hold(h, acqNs) {
			e.Policies = append(e.Policies, p)
		}
	}
	return e, nil
}

// hold changes one policy, and reports whether it did.
func (p *policyMeta) hold(h *Hold, acqNs int64) (changed bool) {
	switch h.Action {
	case HoldResume:
		if p.Held || h.All {
			changed, p.Held = true, false
			for _, d := range p.dimensions() {
				d.resume(acqNs)
			}
		}
	case HoldUndo:
		for _, d := range p.dimensions() {
			changed = d.show(moment{acqNs: acqNs}) || changed
		}
		fallthrough
	case HoldSteps:
		if !h.All && !p.Held {
			p.Held, changed = true, true
		}
	}
	return changed
}

// resume makes what was released count as released at an acq, as segments that were written
// meanwhile hold it, and lets the delay of what is hidden begin again.
func (f *floors) resume(acqNs int64) {
	f.Marks, f.MarkedNs = nil, 0
	f.Gone = slices.Clone(f.Gone)
	for i := range f.Gone {
		f.Gone[i].AcqNs = acqNs
	}
}

// AppendHold appends the command that does what [Store.HoldRetention] does.
//
// Errors: *record.InvalidError, ErrBadCommand.
func AppendHold(dst []byte, h Hold) ([]byte, error) {
	if err := h.validate(); err != nil {
		return dst, err
	}
	has := givenOf(h.CID, h.MOID)
	if h.All {
		has |= givenAll
	}
	dst = append(appendCommand(dst, commandHold), byte(h.Action))
	dst = appendScope(dst, has, h.CID, h.MOID)
	return binary.LittleEndian.AppendUint64(dst, uint64(h.TimeNs)), nil
}

func (c *command) parseHold(body []byte) error {
	if len(body) != 18 {
		return badCommand("%d bytes are no hold", len(body))
	}
	c.hold = Hold{Action: HoldAction(body[0]), All: body[1]&givenAll != 0,
		TimeNs: int64(binary.LittleEndian.Uint64(body[10:]))}
	var err error
	if c.hold.CID, c.hold.MOID, err = parseScope(body[1:10], givenAll); err != nil {
		return err
	}
	return c.hold.validate()
}
