package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxPolicies bounds the policies of a store, of which each is an event or two.
	maxPolicies = 4096
	// stepsPerAge is how many steps a policy takes for the age that it allows: rows outlive it by a
	// fiftieth at most.
	stepsPerAge = 50
	// minStep is the least time between two steps of a policy.
	minStep = time.Minute
	// noFloor is the bound of a policy that has none.
	noFloor = math.MinInt64
)

// ErrNoRetention means that there is no policy for a tenant and quantity.
var ErrNoRetention = errors.New("there is no policy")

// Retention says how old the rows of a tenant and quantity get.
type Retention struct {
	CID, MOID   *int32 // nil: all
	MaxCapAgeNs int64  // rows whose capture is longer ago expire; 0: never
	MaxAcqAgeNs int64  // rows whose acquisition is longer ago expire; 0: never
}

// scope is what a policy applies to; there is one policy for each.
type scope struct {
	CID  *int32 `json:"cid,omitempty"`
	MOID *int32 `json:"moid,omitempty"`
}

// String returns the scope as errors show it.
func (s scope) String() string {
	part := func(id *int32) string {
		if id == nil {
			return "*"
		}
		return strconv.Itoa(int(*id))
	}
	return fmt.Sprintf("cid %s, moid %s; pentad retention list shows those that there are",
		part(s.CID), part(s.MOID))
}

// compare orders scopes by cid, then moid, those that apply to all first.
func (s scope) compare(o scope) int {
	return cmp.Or(comparePart(s.CID, o.CID), comparePart(s.MOID, o.MOID))
}

func comparePart(a, b *int32) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// policyMeta is a policy and how far it has come: rows with an acq below that of its last step
// whose cap or acq is below a floor are hidden, and removed sooner or later.
type policyMeta struct {
	scope
	MaxCapAgeNs int64 `json:"max_cap_age_ns,omitempty"`
	MaxAcqAgeNs int64 `json:"max_acq_age_ns,omitempty"`
	CapFloorNs  int64 `json:"cap_floor_ns"`
	AcqFloorNs  int64 `json:"acq_floor_ns"`
	// The acqs of the steps that raised the floors: rows from then on are not concerned.
	CapStepAcqNs int64 `json:"cap_step_acq_ns"`
	AcqStepAcqNs int64 `json:"acq_step_acq_ns"`
}

// events returns the last step as events: one for each floor.
func (p *policyMeta) events() []Event {
	var all []Event
	for _, f := range []struct {
		dim         record.Dim
		below, step int64
	}{{record.Cap, p.CapFloorNs, p.CapStepAcqNs}, {record.Acq, p.AcqFloorNs, p.AcqStepAcqNs}} {
		if f.below == noFloor {
			continue
		}
		e := Event{AcqNs: f.step, Kind: EventRetention}
		if p.CID != nil {
			e.Box[record.CID] = record.RangeSet{record.At(int64(*p.CID))}
		}
		if p.MOID != nil {
			e.Box[record.MOID] = record.RangeSet{record.At(int64(*p.MOID))}
		}
		e.Box[f.dim] = record.RangeSet{{From: math.MinInt64, To: f.below}}
		all = append(all, e)
	}
	return all
}

// step raises the floors to what the ages allow now, when they are far enough below or, with
// always, in any case, and reports whether they rose.
func (p *policyMeta) step(acqNs, nowNs int64, always bool) bool {
	rose := false
	if raise(&p.CapFloorNs, nowNs, p.MaxCapAgeNs, always) {
		p.CapStepAcqNs, rose = acqNs, true
	}
	if raise(&p.AcqFloorNs, nowNs, p.MaxAcqAgeNs, always) {
		p.AcqStepAcqNs, rose = acqNs, true
	}
	return rose
}

func raise(floor *int64, nowNs, ageNs int64, always bool) bool {
	if ageNs == 0 || nowNs < math.MinInt64+ageNs {
		return false
	}
	next := nowNs - ageNs
	if *floor != noFloor && (next <= *floor ||
		!always && uint64(next)-uint64(*floor) < uint64(max(ageNs/stepsPerAge, int64(minStep)))) {
		return false
	}
	*floor = next
	return true
}

// Retention lists the policies, by tenant and quantity.
func (s *Store) Retention() []Retention {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	var all []Retention
	for _, p := range s.manifest.policies {
		all = append(all, Retention{CID: p.CID, MOID: p.MOID, MaxCapAgeNs: p.MaxCapAgeNs,
			MaxAcqAgeNs: p.MaxAcqAgeNs})
	}
	return all
}

// SetRetention sets the policy for a tenant and quantity, in place of the one that there was.
// Rows that are too old are hidden from every view on return, and again and again from then on;
// the merger removes them. What has expired stays so when a policy is made longer. A policy
// without ages is removed.
//
// Errors: ErrReplicated; *record.InvalidError; ErrNoRetention when there is none to remove;
// ErrTooManyEvents; ErrClosed; ErrFailed.
func (s *Store) SetRetention(ctx context.Context, r Retention) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := cmp.Or(s.own(), r.validate()); err != nil {
		return err
	}
	return s.changeHistory(ctx, r.acqs(), func(acqNs int64) (edit, error) {
		return s.manifest.retentionEdit(&r, acqNs, s.opt.Now())
	})
}

// drops reports whether a policy is one without ages, which takes that of its scope away.
func (r *Retention) drops() bool { return r.MaxCapAgeNs == 0 && r.MaxAcqAgeNs == 0 }

// acqs returns how many acqs the change to a policy takes.
func (r *Retention) acqs() int {
	if r.drops() {
		return 2 // the purges in place of its steps
	}
	return 1
}

// retentionEdit is the edit that sets a policy, or removes it.
func (m *manifest) retentionEdit(r *Retention, acqNs, nowNs int64) (edit, error) {
	sc := scope{r.CID, r.MOID}
	if r.drops() {
		return m.dropEdit(sc, acqNs)
	}
	at, known := m.findPolicy(sc)
	p := newPolicy(r)
	if known {
		p = m.policies[at]
	} else if len(m.policies) >= maxPolicies {
		return edit{}, ErrTooManyEvents
	}
	p.MaxCapAgeNs, p.MaxAcqAgeNs = r.MaxCapAgeNs, r.MaxAcqAgeNs
	p.step(acqNs, min(acqNs, nowNs), true)
	return edit{Policies: []policyMeta{p}}, nil
}

// Expired returns how many rows a policy would hide if it were set at a moment, of those that ask
// counts.
func (r Retention) Expired(
	nowNs int64, ask func(q *record.Query) (uint64, error),
) (rows uint64, err error) {
	if err := r.validate(); err != nil {
		return 0, err
	}
	p := newPolicy(&r)
	p.step(nowNs, nowNs, true)
	count := func(box record.Box) uint64 {
		q := record.Query{Box: box}
		n := uint64(0)
		if err == nil {
			err = q.Normalize()
		}
		if err == nil {
			n, err = ask(&q)
		}
		return n
	}
	steps := p.events()
	for i := range steps {
		rows += count(steps[i].Box)
	}
	if len(steps) == 2 { // one by cap, one by acq: what both hide was counted twice
		both := steps[0].Box
		both[record.Acq] = steps[1].Box[record.Acq]
		rows -= count(both)
	}
	return rows, err
}

// newPolicy returns a policy that has hidden nothing yet.
func newPolicy(r *Retention) policyMeta {
	return policyMeta{scope: scope{r.CID, r.MOID}, MaxCapAgeNs: r.MaxCapAgeNs,
		MaxAcqAgeNs: r.MaxAcqAgeNs, CapFloorNs: noFloor, AcqFloorNs: noFloor}
}

func (r *Retention) validate() error {
	bad := func(part, detail string) error {
		return &record.InvalidError{Part: part, Reason: record.OutOfRange, Row: -1, Detail: detail}
	}
	switch {
	case r.CID != nil && (*r.CID < 0 || *r.CID == math.MaxInt32):
		return bad("cid", fmt.Sprintf("%d is no tenant", *r.CID))
	case r.MOID != nil && *r.MOID == math.MaxInt32:
		return bad("moid", fmt.Sprintf("%d is no quantity", *r.MOID))
	case r.MaxCapAgeNs < 0:
		return bad("max cap age", fmt.Sprintf("%d ns is negative", r.MaxCapAgeNs))
	case r.MaxAcqAgeNs < 0:
		return bad("max acq age", fmt.Sprintf("%d ns is negative", r.MaxAcqAgeNs))
	}
	return nil
}

// dropEdit is the edit that removes a policy. What it has hidden is purged, so that nothing comes
// back.
func (m *manifest) dropEdit(sc scope, acqNs int64) (edit, error) {
	at, known := m.findPolicy(sc)
	if !known {
		return edit{}, fmt.Errorf("%w for %v", ErrNoRetention, sc)
	}
	e := edit{DropPolicies: []scope{sc}}
	for i, last := range m.policies[at].events() {
		hidden := record.RangeSet{{From: math.MinInt64, To: last.AcqNs}}
		if set := last.Box[record.Acq]; len(set) > 0 {
			hidden = clipSet(set, last.AcqNs)
		}
		last.Box[record.Acq] = hidden // what was put since was never hidden
		last.AcqNs, last.Kind = acqNs+int64(i), EventPurge
		e.Events = append(e.Events, metaOf(&last))
	}
	if len(m.events)+len(e.Events) > maxEvents {
		return edit{}, ErrTooManyEvents
	}
	return e, nil
}

// advanceRetention makes the policies take a step whose floors have fallen far enough behind. Those
// of a replica take theirs when its log says so.
func (s *Store) advanceRetention(ctx context.Context) error {
	if s.replicated {
		return nil
	}
	now := s.opt.Now()
	s.manifestMu.Lock()
	due := len(s.manifest.steps(0, now)) > 0
	s.manifestMu.Unlock()
	if !due {
		return nil
	}
	return s.changeHistory(ctx, 1, func(acqNs int64) (edit, error) {
		return edit{Policies: s.manifest.steps(acqNs, now)}, nil
	})
}

// steps returns the policies whose floors have fallen far enough behind, after a step.
func (m *manifest) steps(acqNs, nowNs int64) (all []policyMeta) {
	for _, p := range m.policies {
		if p.step(acqNs, nowNs, false) {
			all = append(all, p)
		}
	}
	return all
}

// retainLoop lets the policies take their steps, and purges go on that had no room.
func (s *Store) retainLoop() {
	tick := time.NewTicker(s.opt.retainEvery)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case <-tick.C:
			_ = s.advanceRetention(ctx) // the next tick tries again
			_ = s.onCommitter(ctx, s.resumePurges)
			s.wakeMerger()
		case <-s.stop:
			return
		}
	}
}

func (m *manifest) findPolicy(sc scope) (at int, known bool) {
	return slices.BinarySearchFunc(m.policies, sc, func(p policyMeta, sc scope) int {
		return p.scope.compare(sc)
	})
}

// applyPolicies changes policies as an edit says.
func (m *manifest) applyPolicies(e *edit) {
	for _, p := range e.Policies {
		if at, known := m.findPolicy(p.scope); known {
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
