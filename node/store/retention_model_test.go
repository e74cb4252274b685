package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// modelPolicy is a policy done stupidly: it keeps all that it ever hid and made removable.
type modelPolicy struct {
	r    retention.Rule
	held bool
	dims [2]modelFloors // by cap, by acq
}

type modelFloors struct {
	hidden   retention.Bound
	stepAcq  int64
	marks    []retention.Mark
	markedAt int64
	gone     []retention.Removable
}

func (p *modelPolicy) age(i int) int64 { return []int64{p.r.MaxCapAgeNs, p.r.MaxAcqAgeNs}[i] }

func (p *modelPolicy) delay(i int) int64 {
	if p.r.DelayNs > 0 {
		return p.r.DelayNs
	}
	return max(int64(time.Hour), min(72*int64(time.Hour), p.age(i)/10))
}

// hides lists what a floor hides, of which none is hidden twice.
func (f *modelFloors) hides() (all []retention.Removable) {
	all = slices.Clone(f.gone)
	if f.hidden.BelowNs > 0 {
		all = append(all, retention.Removable{Bound: f.hidden, AcqNs: f.stepAcq, TimeNs: 0})
	}
	return slices.DeleteFunc(all, func(one retention.Removable) bool {
		return slices.ContainsFunc(all, func(o retention.Removable) bool {
			return o != one && o.FloorNs >= one.FloorNs && o.BelowNs >= one.BelowNs &&
				(o.Bound != one.Bound || o.AcqNs == f.stepAcq)
		})
	})
}

func (p *modelPolicy) events() (all []event.Event) {
	for i, d := range []record.Dim{record.Cap, record.Acq} {
		for _, h := range p.dims[i].hides() {
			e := event.Event{AcqNs: h.AcqNs, Kind: event.Retention}
			e.Box[record.CID] = record.RangeSet{record.At(int64(*p.r.CID))}
			e.Box[record.MOID] = record.RangeSet{{From: record.FirstMOID, To: record.MOID.Max()}}
			to := h.FloorNs
			if d == record.Acq {
				to = min(to, h.BelowNs)
			} else if h.BelowNs != h.AcqNs {
				e.Box[record.Acq] = record.RangeSet{{From: math.MinInt64, To: h.BelowNs}}
			}
			e.Box[d] = record.RangeSet{{From: math.MinInt64, To: to}}
			all = append(all, e)
		}
	}
	return all
}

func (m *groupModel) retention(c Command, r retention.Rule) {
	acq, id := max(c.ClockNs, m.next), fmt.Sprint(*r.CID)
	p := m.policies[id]
	drops := r.MaxCapAgeNs == 0 && r.MaxAcqAgeNs == 0
	if drops && (p == nil || p.age(0) == 0 && p.age(1) == 0) {
		m.end(c, Outcome{Err: retention.ErrNoPolicy})
		return
	}
	if p == nil {
		p = &modelPolicy{}
		m.policies[id] = p
	}
	p.r, p.held = r, p.held && !drops
	if !m.held || drops {
		p.hide(acq, m.time, 0)
	}
	m.next = acq + 1
	m.end(c, Outcome{AcqNs: acq})
}

// hide moves floors that are at least times what a step is worth from where they belong.
func (p *modelPolicy) hide(acq, now, least int64) (moved bool) {
	for i := range p.dims {
		f, age := &p.dims[i], p.age(i)
		if p.held || now == 0 && age > 0 {
			continue
		}
		if age == 0 {
			moved = f.show(acq) || moved
			continue
		}
		next := now - age
		off := max(next-f.hidden.FloorNs, f.hidden.FloorNs-next)
		if f.hidden.BelowNs > 0 &&
			(off == 0 || off < least*min(max(age/50, int64(time.Minute)), 144*hour)) {
			continue
		}
		f.marks = slices.DeleteFunc(slices.Clone(f.marks), func(m retention.Mark) bool {
			return m.FloorNs > next
		})
		if len(f.marks) == 0 && next < f.hidden.FloorNs {
			f.markedAt = 0
		}
		f.hidden, f.stepAcq, moved = retention.Bound{FloorNs: next, BelowNs: acq}, acq, true
	}
	return moved
}

func (f *modelFloors) show(acq int64) bool {
	if f.hidden == (retention.Bound{}) {
		return false
	}
	f.hidden, f.stepAcq, f.marks, f.markedAt = retention.Bound{}, acq, nil, 0
	return true
}

// drawStep draws a step and does it.
func (m *groupModel) drawStep(rng *rand.Rand, c Command) []byte {
	ran := m.ran + rng.Int64N(4*hour)
	now := max(1, c.ClockNs-rng.Int64N(int64(time.Hour)))
	tick, some, changed := hour, false, false
	acq, late := max(c.ClockNs, m.next), max(now-m.time, m.time-now) >= hour
	for _, p := range m.policies {
		if m.held || p.held || p.age(0)+p.age(1) == 0 {
			continue
		}
		some = true
		for i := range p.dims {
			if len(p.dims[i].marks) > 0 {
				tick = min(tick, p.delay(i)/8)
			}
		}
		changed = p.hide(acq, now, 1) || changed
		changed = p.makeRemovable(acq, now, ran) || changed
	}
	if changed || some && (late || ran-m.ran >= tick) {
		m.time, m.ran, m.next = now, ran, acq+1
		m.end(c, Outcome{AcqNs: acq})
	} else {
		m.end(c, Outcome{})
	}
	return commands.AppendStep(nil, now, ran)
}

// makeRemovable marks what is hidden, and makes what has an old mark removable.
func (p *modelPolicy) makeRemovable(acq, now, ran int64) (changed bool) {
	for i := range p.dims {
		f, age, delay := &p.dims[i], p.age(i), p.delay(i)
		known := func(b retention.Bound) bool {
			return b.FloorNs >= f.hidden.FloorNs && b.BelowNs >= f.hidden.BelowNs
		}
		period := max(min(max(age/50, int64(time.Minute)), 144*hour), delay/10)
		again := age > 0 && (f.markedAt == 0 || now < f.markedAt || now-f.markedAt >= period)
		if again && f.hidden.BelowNs > 0 && len(f.marks) < 11 &&
			!slices.ContainsFunc(f.marks, func(m retention.Mark) bool { return known(m.Bound) }) &&
			!slices.ContainsFunc(f.gone, func(g retention.Removable) bool {
				return known(g.Bound)
			}) {
			f.marks = append(slices.Clone(f.marks), retention.Mark{Bound: f.hidden, RanNs: ran})
			f.markedAt, changed = now, true
		}
		for age > 0 && len(f.marks) > 0 && ran-f.marks[0].RanNs >= delay {
			next := retention.Removable{Bound: f.marks[0].Bound, AcqNs: acq, TimeNs: now}
			left := slices.DeleteFunc(slices.Clone(f.gone), func(g retention.Removable) bool {
				return next.FloorNs >= g.FloorNs && next.BelowNs >= g.BelowNs
			})
			if len(left) >= 16 {
				break
			}
			f.gone, f.marks, changed = append(left, next), f.marks[1:], true
		}
		for k := range f.gone {
			if f.gone[k].TimeNs > now {
				f.gone = slices.Clone(f.gone)
				f.gone[k].TimeNs, changed = now, true
			}
		}
	}
	return changed
}

func (l *groupLog) drawHold(rng *rand.Rand) retention.Hold {
	h := retention.Hold{Action: retention.Action(1 + rng.IntN(3)), All: rng.IntN(3) == 0}
	if !h.All {
		cid := int32(rng.Int64N(l.cids))
		h.CID = &cid
	}
	if h.Action == retention.HoldResume && rng.IntN(2) == 0 {
		h.TimeNs = l.clock
	}
	return h
}

func (m *groupModel) hold(c Command, h retention.Hold) {
	acq, changed := max(c.ClockNs, m.next), false
	if !h.All {
		p := m.policies[fmt.Sprint(*h.CID)]
		if p == nil || p.age(0)+p.age(1) == 0 {
			m.end(c, Outcome{Err: retention.ErrNoPolicy})
			return
		}
	}
	if h.TimeNs != 0 && h.TimeNs != m.time {
		m.time, changed = h.TimeNs, true
	}
	if held := h.Action != retention.HoldResume; h.All && m.held != held {
		m.held, changed = held, true
	}
	for id, p := range m.policies {
		if h.All || id == fmt.Sprint(*h.CID) {
			changed = p.hold(h, acq) || changed
		}
	}
	if changed {
		m.next = acq + 1
		m.end(c, Outcome{AcqNs: acq})
	} else {
		m.end(c, Outcome{})
	}
}

func (p *modelPolicy) hold(h retention.Hold, acq int64) (changed bool) {
	for i := range p.dims {
		f := &p.dims[i]
		switch {
		case h.Action == retention.HoldUndo:
			changed = f.show(acq) || changed
		case h.Action == retention.HoldResume && (p.held || h.All):
			f.marks, f.markedAt, changed = nil, 0, true
			f.gone = slices.Clone(f.gone)
			for k := range f.gone {
				f.gone[k].AcqNs = acq
			}
		}
	}
	switch {
	case h.Action == retention.HoldResume:
		p.held = false
	case !h.All && !p.held:
		p.held, changed = true, true
	}
	return changed
}
