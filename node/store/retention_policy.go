package store

import (
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// A retention works in three phases. A step hides what is too old: that can be undone. What has
// been hidden is marked, and once nodes have run for the delay since then, a step releases what the
// mark covers: only then may a merge or a seal leave its bytes out. All three are steps of the log
// of a replica, so all replicas hide and release alike; when each of them rewrites its files is its
// own affair, within removalDelay of the release.
const (
	// stepsPerAge is how many steps a policy takes for the age that it allows: rows outlive it by
	// a fiftieth at most, and by at most maxStep.
	stepsPerAge = 50
	// minStep is the least time between two steps of a policy.
	minStep = time.Minute
	// maxStep bounds how far the floors of a long age are behind.
	maxStep = 6 * 24 * time.Hour
	// marksPerDelay bounds the marks that wait for the delay at the same time.
	marksPerDelay = 10
	// maxReleased bounds the releases of which none covers another one: one more for each time that
	// an age is made longer.
	maxReleased = 16
	// restPercent of the age is how long released rows may rest in a segment, so that it is
	// rewritten once for many releases. With a step before and some time for merges it is a tenth
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

// moment is what a step is taken with.
type moment struct {
	acqNs  int64
	timeNs int64 // what the time provably is; 0: unknown, and no floor moves
	ranNs  int64 // how long nodes have run between steps, in all
}

// timeMeta is what the steps of a store have in common.
type timeMeta struct {
	TimeNs int64 `json:"time_ns,omitempty"` // of the last step
	RanNs  int64 `json:"ran_ns,omitempty"`
	Held   bool  `json:"held,omitempty"` // no policy takes steps, and nothing is removed
}

// bound concerns the rows with an acq below BelowNs whose cap, or acq, is below FloorNs; the zero
// bound concerns none.
type bound struct {
	FloorNs int64 `json:"floor_ns"`
	BelowNs int64 `json:"below_acq_ns"`
}

func (b bound) none() bool { return b.BelowNs == 0 }

// covers reports whether b concerns every row that o does.
func (b bound) covers(o bound) bool {
	return o.none() || !b.none() && b.FloorNs >= o.FloorNs && b.BelowNs >= o.BelowNs
}

// union returns a bound that concerns what either does, and maybe more.
func (b bound) union(o bound) bound {
	switch {
	case b.none():
		return o
	case o.none():
		return b
	}
	return bound{max(b.FloorNs, o.FloorNs), max(b.BelowNs, o.BelowNs)}
}

// mark is what was hidden at a step. It is released when nodes have run for the delay since.
type mark struct {
	bound
	RanNs int64 `json:"ran_ns"`
}

// released is what may be removed, and the step that let go of it.
type released struct {
	bound
	AcqNs  int64 `json:"acq_ns"`
	TimeNs int64 `json:"time_ns"`
}

// floors is how far a policy has come in one dimension.
type floors struct {
	Hidden    bound  `json:"hidden,omitzero"`
	StepAcqNs int64  `json:"step_acq_ns,omitempty"` // of the step that changed Hidden last
	Shown     bound  `json:"shown,omitzero"`        // covers what was hidden and is shown again
	Marks     []mark `json:"marks,omitempty"`       // oldest first
	MarkedNs  int64  `json:"marked_ns,omitempty"`   // time of the newest mark

	// Gone is what has been released, whether or not Hidden covers it: it is hidden for good. None
	// of them covers another one, so there are several only after an age was made longer.
	Gone []released `json:"gone,omitempty"`
}

// policyMeta is a policy and how far it has come. One without ages was removed: it keeps away what
// it has released.
type policyMeta struct {
	scope
	MaxCapAgeNs int64  `json:"max_cap_age_ns,omitempty"`
	MaxAcqAgeNs int64  `json:"max_acq_age_ns,omitempty"`
	DelayNs     int64  `json:"delay_ns,omitempty"` // 0: the default
	Held        bool   `json:"held,omitempty"`
	Cap         floors `json:"cap,omitzero"`
	Acq         floors `json:"acq,omitzero"`
}

func (p *policyMeta) same(o *policyMeta) bool { return reflect.DeepEqual(p, o) }

// dimension is one of the two floors of a policy.
type dimension struct {
	dim   record.Dim
	ageNs int64
	*floors
}

func (p *policyMeta) dimensions() [2]dimension {
	return [2]dimension{{record.Cap, p.MaxCapAgeNs, &p.Cap}, {record.Acq, p.MaxAcqAgeNs, &p.Acq}}
}

// removed reports whether the policy is only what is left of one that was removed.
func (p *policyMeta) removed() bool { return p.MaxCapAgeNs == 0 && p.MaxAcqAgeNs == 0 }

// lastAcq is the greatest acq of a step that left something.
func (p *policyMeta) lastAcq() (acqNs int64) {
	for _, d := range p.dimensions() {
		acqNs = max(acqNs, d.StepAcqNs)
		for _, g := range d.Gone {
			acqNs = max(acqNs, g.AcqNs)
		}
	}
	return acqNs
}

// events returns what the policy hides as events: mostly one for each floor, its last step.
func (p *policyMeta) events() (all []event.Event) {
	for _, d := range p.dimensions() {
		for _, g := range d.Gone {
			if !d.Hidden.covers(g.bound) {
				all = append(all, p.event(d.dim, g.bound, g.AcqNs))
			}
		}
		if !d.Hidden.none() {
			all = append(all, p.event(d.dim, d.Hidden, d.StepAcqNs))
		}
	}
	return all
}

// gone returns what the policy has released, each with the acq of its release.
func (p *policyMeta) gone() (all []*rangeTombstone) {
	for _, d := range p.dimensions() {
		for i, g := range d.Gone {
			e := p.event(d.dim, g.bound, g.AcqNs)
			h, ok := tombstoneOf(&e)
			if !ok {
				continue
			}
			h.release = release{released: g, key: releaseKey{scopeKey: p.key(), dim: d.dim},
				restNs: d.restOf(g)}
			if i < len(d.Gone)-1 {
				h.release.key.fixed = g
			}
			all = append(all, h)
		}
	}
	return all
}

// shown returns what the policy has hidden and shows again, as of its last step.
func (p *policyMeta) shown() (all []*rangeTombstone) {
	for _, d := range p.dimensions() {
		if d.Shown.none() {
			continue
		}
		e := p.event(d.dim, d.Shown, d.StepAcqNs)
		if h, ok := tombstoneOf(&e); ok {
			all = append(all, h)
		}
	}
	return all
}

// event returns the event at an acq that concerns the rows of a bound.
func (p *policyMeta) event(dim record.Dim, b bound, acqNs int64) event.Event {
	e := event.Event{AcqNs: acqNs, Kind: event.Retention}
	if p.CID != nil {
		e.Box[record.CID] = record.RangeSet{record.At(int64(*p.CID))}
	}
	if p.MOID != nil {
		e.Box[record.MOID] = record.RangeSet{record.At(int64(*p.MOID))}
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

// isEmpty reports whether nothing is left of a policy that was removed.
func (p *policyMeta) isEmpty() bool {
	empty := p.removed()
	for _, d := range p.dimensions() {
		empty = empty && d.Hidden.none() && d.Shown.none() && len(d.Gone) == 0
	}
	return empty
}

// hide moves what is hidden to what the ages allow, when that is far enough from there or, with
// exact, in any case, and reports whether it moved.
func (p *policyMeta) hide(at moment, exact bool) (moved bool) {
	for _, d := range p.dimensions() {
		if !p.Held && (at.timeNs != 0 || d.ageNs == 0) {
			moved = d.hide(at, d.ageNs, exact) || moved
		}
	}
	return moved
}

// step hides what is too old, marks what is hidden, and releases what was marked long enough ago.
// It reports whether anything changed.
func (p *policyMeta) step(at moment) bool {
	changed := p.hide(at, false)
	for _, d := range p.dimensions() {
		if d.ageNs > 0 {
			delay := p.delay(d.ageNs)
			changed = d.mark(at, d.ageNs, delay) || changed
			changed = d.release(at, delay) || changed
		}
		changed = d.notLater(at) || changed
	}
	return changed
}

// notLater makes what was released while the clock was ahead count as released now: what is due
// for it would wait until then.
func (f *floors) notLater(at moment) (changed bool) {
	for i, g := range f.Gone {
		if at.timeNs > 0 && g.TimeNs > at.timeNs {
			f.Gone = slices.Clone(f.Gone)
			f.Gone[i].TimeNs, changed = at.timeNs, true
		}
	}
	return changed
}

// hide moves what is hidden up or down. What has been released stays hidden all the same.
func (f *floors) hide(at moment, ageNs int64, exact bool) bool {
	if ageNs == 0 {
		return f.show(at)
	}
	if at.timeNs < math.MinInt64+ageNs {
		return false
	}
	next := at.timeNs - ageNs
	if !f.Hidden.none() {
		apart := absDiff(next, f.Hidden.FloorNs)
		if apart == 0 || !exact && apart < uint64(stepOf(ageNs)) {
			return false
		}
		if next < f.Hidden.FloorNs {
			f.Shown = f.Shown.union(f.Hidden)
			f.unmark(next)
		}
	}
	f.Hidden, f.StepAcqNs = bound{next, at.acqNs}, at.acqNs
	if f.Hidden.covers(f.Shown) {
		f.Shown = bound{}
	}
	return true
}

// show shows all that was not released.
func (f *floors) show(at moment) bool {
	if f.Hidden.none() {
		return false
	}
	f.Shown = f.Shown.union(f.Hidden)
	f.unmark(math.MinInt64)
	f.Hidden, f.StepAcqNs = bound{}, at.acqNs
	return true
}

// unmark removes the marks above a floor: what they cover is shown again.
func (f *floors) unmark(floorNs int64) {
	var left []mark
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
func (f *floors) mark(at moment, ageNs, delayNs int64) bool {
	n := len(f.Marks)
	soon := f.MarkedNs != 0 && at.timeNs >= f.MarkedNs &&
		at.timeNs-f.MarkedNs < periodOf(ageNs, delayNs)
	if f.Hidden.none() || soon || n > marksPerDelay || n > 0 && f.Marks[n-1].covers(f.Hidden) ||
		slices.ContainsFunc(f.Gone, func(g released) bool { return g.covers(f.Hidden) }) {
		return false
	}
	f.Marks = append(slices.Clone(f.Marks), mark{f.Hidden, at.ranNs})
	f.MarkedNs = at.timeNs
	return true
}

// release lets go of what was marked long enough ago.
func (f *floors) release(at moment, delayNs int64) bool {
	some := false
	for len(f.Marks) > 0 && at.ranNs-f.Marks[0].RanNs >= delayNs {
		all := addReleased(f.Gone, released{f.Marks[0].bound, at.acqNs, at.timeNs})
		if len(all) > maxReleased {
			break // it waits until the floors have passed some of them
		}
		f.Gone, f.Marks, some = all, f.Marks[1:], true
	}
	if len(f.Marks) == 0 {
		f.Marks = nil
	}
	return some
}

// addReleased adds a release, in place of those that it covers.
func addReleased(to []released, next released) (all []released) {
	for _, g := range to {
		if !next.covers(g.bound) {
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
	return min(max(ageNs/stepsPerAge, int64(minStep)), int64(maxStep))
}

// periodOf is how far what is hidden moves between two marks.
func periodOf(ageNs, delayNs int64) int64 { return max(stepOf(ageNs), delayNs/marksPerDelay) }

// removalDelay is for how long rows that were released may rest in a segment.
func removalDelay(ageNs int64) int64 { return min(ageNs/100*restPercent, int64(maxRemovalDelay)) }

// restOf is for how long the rows of a release may rest: by the age then, if it was made
// longer.
func (d *dimension) restOf(g released) int64 {
	return min(removalDelay(d.ageNs), removalDelay(g.TimeNs-g.FloorNs))
}

// delay is how long nodes run between hiding and releasing.
func (p *policyMeta) delay(ageNs int64) int64 {
	if p.DelayNs != 0 {
		return p.DelayNs
	}
	return min(max(ageNs/delayShare, int64(minDelay)), int64(maxDelay))
}

// tick is how often steps are taken that only note the time, while the policy has need of them.
func (p *policyMeta) tick() int64 {
	every := int64(tickEvery)
	for _, d := range p.dimensions() {
		if len(d.Marks) > 0 {
			every = min(every, p.delay(d.ageNs)/ticksPerDelay)
		}
	}
	return every
}
