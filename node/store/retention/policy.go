// Package retention decides what a retention may hide and remove, and when: rules, how far each has
// come, holds, and what time is certain.
//
// It holds no rows and writes nothing: a step returns the policies that change, and the caller
// makes them durable. Its main type is [Policy]; all but [Clock], which any goroutine may use, is
// data. It starts no goroutine.
package retention

import (
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// A retention works in three phases. A step hides what is too old: that can be undone. What has
// been hidden is marked, and once nodes have run for the delay since then, a step makes removable
// what the mark covers: only then may a merge or a seal leave its bytes out. All three are steps of
// the log of a replica, so all replicas hide and remove alike; when each of them rewrites its files
// is its own affair, within removalDelay of that step.
const (
	// stepsPerAge is how many steps a policy takes for the age that it allows: rows outlive it by
	// a fiftieth at most, and by at most maxStep.
	stepsPerAge = 50
	// MinStep is the least time between two steps of a policy.
	MinStep = time.Minute
	// maxStep bounds how far the floors of a long age are behind.
	maxStep = 6 * 24 * time.Hour
	// marksPerDelay bounds the marks that wait for the delay at the same time.
	marksPerDelay = 10
	// MaxRemovable bounds the removals of which none covers another one: one more for each time
	// that an age is made longer.
	MaxRemovable = 16
	// restPercent of the age is how long removable rows may rest in a segment, so that it is
	// rewritten once for many removals. With a step before and some time for merges it is a tenth
	// of the age, and 30 days.
	restPercent     = 7
	maxRemovalDelay = 20 * 24 * time.Hour

	// The default delay is a tenth of the age, between minDelay and maxDelay: a wrong clock or a
	// mistyped age is found by a person within hours or days.
	delayShare = 10
	minDelay   = time.Hour
	maxDelay   = 3 * 24 * time.Hour

	// tickEvery is how often a step notes how late it is although no floor moves.
	tickEvery = time.Hour
	// ticksPerDelay: time that a node ran is noted that often, so that a restart loses little.
	ticksPerDelay = 8
)

// StepTime is what a step is taken with.
type StepTime struct {
	AcqNs  int64
	TimeNs int64 // the time, if it is certain; 0: unknown, and no floor moves
	RanNs  int64 // how long nodes have run between steps, in all
}

// Steps is what the steps of a store have in common.
type Steps struct {
	TimeNs int64 `json:"time_ns,omitempty"` // of the last step
	RanNs  int64 `json:"ran_ns,omitempty"`
	Held   bool  `json:"held,omitempty"` // no policy takes steps, and nothing is removed
}

// Bound concerns the rows with an acq below BelowNs whose cap, or acq, is below FloorNs; the zero
// bound concerns none.
type Bound struct {
	FloorNs int64 `json:"floor_ns"`
	BelowNs int64 `json:"below_acq_ns"`
}

func (b Bound) none() bool { return b.BelowNs == 0 }

// covers reports whether b concerns every row that o does.
func (b Bound) covers(o Bound) bool {
	return o.none() || !b.none() && b.FloorNs >= o.FloorNs && b.BelowNs >= o.BelowNs
}

// union returns a bound that concerns what either does, and maybe more.
func (b Bound) union(o Bound) Bound {
	switch {
	case b.none():
		return o
	case o.none():
		return b
	}
	return Bound{max(b.FloorNs, o.FloorNs), max(b.BelowNs, o.BelowNs)}
}

// Mark is what was hidden at a step. It becomes removable when nodes have run for the delay since.
type Mark struct {
	Bound
	RanNs int64 `json:"ran_ns"`
}

// Removable is what may be removed, and the step that allowed it.
type Removable struct {
	Bound
	AcqNs  int64 `json:"acq_ns"`
	TimeNs int64 `json:"time_ns"`
}

// Floors is how far a policy has come in one dimension.
type Floors struct {
	Hidden    Bound  `json:"hidden,omitzero"`
	StepAcqNs int64  `json:"step_acq_ns,omitempty"` // of the step that changed Hidden last
	Unhidden  Bound  `json:"shown,omitzero"`        // covers what was hidden and is shown again
	Marks     []Mark `json:"marks,omitempty"`       // oldest first
	MarkedNs  int64  `json:"marked_ns,omitempty"`   // time of the newest mark

	// Gone is what is removable, whether or not Hidden covers it: it is hidden for good. None
	// of them covers another one, so there are several only after an age was made longer.
	Gone []Removable `json:"gone,omitempty"`
}

// Policy is a policy and how far it has come. One without ages was removed: it keeps away what
// it has made removable.
type Policy struct {
	Scope
	MaxCapAgeNs int64  `json:"max_cap_age_ns,omitempty"`
	MaxAcqAgeNs int64  `json:"max_acq_age_ns,omitempty"`
	DelayNs     int64  `json:"delay_ns,omitempty"` // 0: the default
	Held        bool   `json:"held,omitempty"`
	Cap         Floors `json:"cap,omitzero"`
	Acq         Floors `json:"acq,omitzero"`
}

// Same reports whether two policies have come equally far.
func (p *Policy) Same(o *Policy) bool { return reflect.DeepEqual(p, o) }

// dimension is one of the two floors of a policy.
type dimension struct {
	dim   record.Dim
	ageNs int64
	*Floors
}

func (p *Policy) dimensions() [2]dimension {
	return [2]dimension{{record.Cap, p.MaxCapAgeNs, &p.Cap}, {record.Acq, p.MaxAcqAgeNs, &p.Acq}}
}

// Removed reports whether the policy is only what is left of one that was removed.
func (p *Policy) Removed() bool { return p.MaxCapAgeNs == 0 && p.MaxAcqAgeNs == 0 }

// LastAcq is the greatest acq of a step that left something.
func (p *Policy) LastAcq() (acqNs int64) {
	for _, d := range p.dimensions() {
		acqNs = max(acqNs, d.StepAcqNs)
		for _, g := range d.Gone {
			acqNs = max(acqNs, g.AcqNs)
		}
	}
	return acqNs
}

// Events returns what the policy hides as events: mostly one for each floor, its last step.
func (p *Policy) Events() (all []event.Event) {
	for _, d := range p.dimensions() {
		for _, g := range d.Gone {
			if !d.Hidden.covers(g.Bound) {
				all = append(all, p.event(d.dim, g.Bound, g.AcqNs))
			}
		}
		if !d.Hidden.none() {
			all = append(all, p.event(d.dim, d.Hidden, d.StepAcqNs))
		}
	}
	return all
}

// EachRemovable visits what the policy has made removable, as an event with the acq of that step.
func (p *Policy) EachRemovable(visit func(e event.Event, r Removal)) {
	for _, d := range p.dimensions() {
		for i, g := range d.Gone {
			r := Removal{Removable: g, Key: RemovalKey{ScopeKey: p.Key(), dim: d.dim},
				RestNs: d.restOf(g)}
			if i < len(d.Gone)-1 {
				r.Key.fixed = g
			}
			visit(p.event(d.dim, g.Bound, g.AcqNs), r)
		}
	}
}

// Unhidden returns what the policy has hidden and shows again, as events of its last step.
func (p *Policy) Unhidden() (all []event.Event) {
	for _, d := range p.dimensions() {
		if !d.Unhidden.none() {
			all = append(all, p.event(d.dim, d.Unhidden, d.StepAcqNs))
		}
	}
	return all
}

// Unmarked returns the policy without marks, which are a store's own: as a copy of it has it.
func (p *Policy) Unmarked() Policy {
	out := *p
	for _, d := range out.dimensions() {
		d.Marks, d.MarkedNs, d.Gone = nil, 0, slices.Clone(d.Gone)
	}
	return out
}

// event returns the event at an acq that concerns the rows of a bound.
func (p *Policy) event(dim record.Dim, b Bound, acqNs int64) event.Event {
	e := event.Event{AcqNs: acqNs, Kind: event.Retention}
	if p.CID != nil {
		e.Box[record.CID] = record.RangeSet{record.At(int64(*p.CID))}
	}
	if p.MOID != nil {
		e.Box[record.MOID] = record.RangeSet{record.At(int64(*p.MOID))}
	} else { // names are needed for as long as there are devices
		e.Box[record.MOID] = record.RangeSet{{From: record.FirstMOID, To: record.MOID.Max()}}
	}
	to := b.FloorNs
	switch {
	case dim == record.Acq:
		to = min(to, b.BelowNs)
	case b.BelowNs != acqNs:
		e.Box[record.Acq] = record.RangeSet{{From: math.MinInt64, To: b.BelowNs}}
	}
	e.Box[dim] = record.RangeSet{{From: math.MinInt64, To: to}}
	return e
}

// IsEmpty reports whether nothing is left of a policy that was removed.
func (p *Policy) IsEmpty() bool {
	empty := p.Removed()
	for _, d := range p.dimensions() {
		empty = empty && d.Hidden.none() && d.Unhidden.none() && len(d.Gone) == 0
	}
	return empty
}

// Hide moves what is hidden to what the ages allow, when that is far enough from there or, with
// exact, in any case, and reports whether it moved.
func (p *Policy) Hide(at StepTime, exact bool) (moved bool) {
	for _, d := range p.dimensions() {
		if !p.Held && (at.TimeNs != 0 || d.ageNs == 0) {
			moved = d.hide(at, d.ageNs, exact) || moved
		}
	}
	return moved
}

// step hides what is too old, marks what is hidden, and makes removable what was marked long enough
// ago. It reports whether anything changed.
func (p *Policy) step(at StepTime) bool {
	changed := p.Hide(at, false)
	for _, d := range p.dimensions() {
		if d.ageNs > 0 {
			delay := p.Delay(d.ageNs)
			changed = d.mark(at, d.ageNs, delay) || changed
			changed = d.makeRemovable(at, delay) || changed
		}
		changed = d.notLater(at) || changed
	}
	return changed
}

// notLater makes what became removable while the clock was ahead count as removable since now: what
// is due for it would wait until then.
func (f *Floors) notLater(at StepTime) (changed bool) {
	for i, g := range f.Gone {
		if at.TimeNs > 0 && g.TimeNs > at.TimeNs {
			f.Gone = slices.Clone(f.Gone)
			f.Gone[i].TimeNs, changed = at.TimeNs, true
		}
	}
	return changed
}

// hide moves what is hidden up or down. What is removable stays hidden all the same.
func (f *Floors) hide(at StepTime, ageNs int64, exact bool) bool {
	if ageNs == 0 {
		return f.unhide(at)
	}
	if at.TimeNs < math.MinInt64+ageNs {
		return false
	}
	next := at.TimeNs - ageNs
	if !f.Hidden.none() {
		apart := absDiff(next, f.Hidden.FloorNs)
		if apart == 0 || !exact && apart < uint64(stepOf(ageNs)) {
			return false
		}
		if next < f.Hidden.FloorNs {
			f.Unhidden = f.Unhidden.union(f.Hidden)
			f.unmark(next)
		}
	}
	f.Hidden, f.StepAcqNs = Bound{next, at.AcqNs}, at.AcqNs
	if f.Hidden.covers(f.Unhidden) {
		f.Unhidden = Bound{}
	}
	return true
}

// unhide shows all that is not removable.
func (f *Floors) unhide(at StepTime) bool {
	if f.Hidden.none() {
		return false
	}
	f.Unhidden = f.Unhidden.union(f.Hidden)
	f.unmark(math.MinInt64)
	f.Hidden, f.StepAcqNs = Bound{}, at.AcqNs
	return true
}

// unmark removes the marks above a floor: what they cover is shown again.
func (f *Floors) unmark(floorNs int64) {
	var left []Mark
	for _, m := range f.Marks {
		if m.FloorNs <= floorNs {
			left = append(left, m)
		}
	}
	if f.Marks = left; len(left) == 0 {
		f.MarkedNs = 0
	}
}

// mark begins the delay of what is hidden.
func (f *Floors) mark(at StepTime, ageNs, delayNs int64) bool {
	n := len(f.Marks)
	soon := f.MarkedNs != 0 && at.TimeNs >= f.MarkedNs &&
		at.TimeNs-f.MarkedNs < periodOf(ageNs, delayNs)
	if f.Hidden.none() || soon || n > marksPerDelay || n > 0 && f.Marks[n-1].covers(f.Hidden) ||
		slices.ContainsFunc(f.Gone, func(g Removable) bool { return g.covers(f.Hidden) }) {
		return false
	}
	f.Marks = append(slices.Clone(f.Marks), Mark{f.Hidden, at.RanNs})
	f.MarkedNs = at.TimeNs
	return true
}

// makeRemovable lets rows be removed of what was marked long enough ago.
func (f *Floors) makeRemovable(at StepTime, delayNs int64) bool {
	some := false
	for len(f.Marks) > 0 && at.RanNs-f.Marks[0].RanNs >= delayNs {
		all := addRemovable(f.Gone, Removable{f.Marks[0].Bound, at.AcqNs, at.TimeNs})
		if len(all) > MaxRemovable {
			break // it waits until the floors have passed some of them
		}
		f.Gone, f.Marks, some = all, f.Marks[1:], true
	}
	if len(f.Marks) == 0 {
		f.Marks = nil
	}
	return some
}

// addRemovable adds a removal, in place of those that it covers.
func addRemovable(to []Removable, next Removable) (all []Removable) {
	for _, g := range to {
		if !next.covers(g.Bound) {
			all = append(all, g)
		}
	}
	return append(all, next)
}

func absDiff(a, b int64) uint64 {
	if a < b {
		a, b = b, a
	}
	return uint64(a) - uint64(b)
}

// stepOf is how far a floor is from where it belongs before it moves.
func stepOf(ageNs int64) int64 {
	return min(max(ageNs/stepsPerAge, int64(MinStep)), int64(maxStep))
}

// periodOf is how far what is hidden moves between two marks.
func periodOf(ageNs, delayNs int64) int64 { return max(stepOf(ageNs), delayNs/marksPerDelay) }

// removalDelay is for how long removable rows may rest in a segment.
func removalDelay(ageNs int64) int64 { return min(ageNs/100*restPercent, int64(maxRemovalDelay)) }

// restOf is for how long the rows of a removal may rest: by the age then, if it was made
// longer.
func (d *dimension) restOf(g Removable) int64 {
	return min(removalDelay(d.ageNs), removalDelay(g.TimeNs-g.FloorNs))
}

// Delay is how long nodes run between hiding and the step that lets rows be removed.
func (p *Policy) Delay(ageNs int64) int64 {
	if p.DelayNs != 0 {
		return p.DelayNs
	}
	return min(max(ageNs/delayShare, int64(minDelay)), int64(maxDelay))
}

// tick is how often steps are taken that only note the time, while the policy has need of them.
func (p *Policy) tick() int64 {
	every := int64(tickEvery)
	for _, d := range p.dimensions() {
		if len(d.Marks) > 0 {
			every = min(every, p.Delay(d.ageNs)/ticksPerDelay)
		}
	}
	return every
}

// Step returns the policies whose floors move with a step, and the next state of all steps; nil
// when nothing is due. It changes neither.
func Step(all []Policy, last Steps, at StepTime) (moved []Policy, next *Steps) {
	if at.TimeNs == 0 || last.Held {
		return nil, nil
	}
	at.RanNs = max(at.RanNs, last.RanNs)
	tick, some := int64(tickEvery), false
	for _, p := range all {
		if p.Held || p.Removed() {
			continue
		}
		some, tick = true, min(tick, p.tick())
		if p.step(at) {
			moved = append(moved, p)
		}
	}
	overdue := absDiff(at.TimeNs, last.TimeNs) >= uint64(tickEvery) || at.RanNs-last.RanNs >= tick
	if len(moved) > 0 || some && overdue {
		next = &Steps{TimeNs: at.TimeNs, RanNs: at.RanNs}
	}
	return moved, next
}

// Between is of a range of acqs that brings the floors of another store: what steps behind its end
// did is left as it was. What is removable counts as removable since the range, as segments that
// are older may hold it.
func (f *Floors) Between(fromNs, toNs int64, old *Floors) {
	if f.StepAcqNs >= toNs {
		f.Hidden, f.StepAcqNs, f.Unhidden = old.Hidden, old.StepAcqNs, old.Unhidden
	}
	more := f.Gone
	f.Gone = old.Gone
	for _, g := range more {
		known := slices.ContainsFunc(old.Gone, func(o Removable) bool { return o.covers(g.Bound) })
		if g.AcqNs < toNs && !known {
			g.AcqNs = max(g.AcqNs, fromNs)
			f.Gone = addRemovable(f.Gone, g)
		}
	}
}
