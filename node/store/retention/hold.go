package retention

import (
	"slices"
)

// Action says what a hold does. Numbers are for ever.
type Action uint8

// Actions.
const (
	// HoldSteps stops steps, marks and removals of policies.
	HoldSteps Action = 1
	// HoldResume lets them go on.
	HoldResume Action = 2
	// HoldUndo shows again what policies have hidden and is not removable, and holds them.
	HoldUndo Action = 3
	lastHold        = HoldUndo
)

// Known reports whether this version knows the action.
func (a Action) Known() bool { return a != 0 && a <= lastHold }

// Hold stops retentions, lets them go on, or undoes their last steps.
type Hold struct {
	Action    Action
	All       bool   // every policy, also those that are set later; without CID and MOID
	CID, MOID *int32 // of the policy
	// TimeNs is what the time is, by the word of an operator: with HoldResume steps go on from
	// there, and wait for no further evidence. 0: nothing is said of it.
	TimeNs int64
}

// Hold changes one policy, and reports whether it did.
func (p *Policy) Hold(h *Hold, acqNs int64) (changed bool) {
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
			changed = d.unhide(StepTime{AcqNs: acqNs}) || changed
		}
		fallthrough
	case HoldSteps:
		if !h.All && !p.Held {
			p.Held, changed = true, true
		}
	}
	return changed
}

// resume makes what is removable count as removable since an acq, as segments that were written
// meanwhile hold it, and lets the delay of what is hidden begin again.
func (f *Floors) resume(acqNs int64) {
	f.Marks, f.MarkedNs = nil, 0
	f.Gone = slices.Clone(f.Gone)
	for i := range f.Gone {
		f.Gone[i].AcqNs = acqNs
	}
}
