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

	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxPolicies bounds the policies of a store, of which each is an event or two.
const maxPolicies = 4096

// ErrNoRetention means that there is no policy for a tenant and quantity.
var ErrNoRetention = errors.New("there is no policy")

// Retention says how old the rows of a tenant and quantity get.
type Retention struct {
	CID, MOID   *int32 // nil: all
	MaxCapAgeNs int64  // rows whose capture is longer ago expire; 0: never
	MaxAcqAgeNs int64  // rows whose acquisition is longer ago expire; 0: never
	// DelayNs is how long rows that have expired are only hidden, while nodes run, before their
	// bytes may be removed; 0: a tenth of the age, between an hour and three days.
	DelayNs int64
	Held    bool // it takes no steps, see [Store.HoldRetention]; SetRetention leaves that alone
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

// scopeKey is a scope that can be compared; the least int64 is for all.
type scopeKey struct{ cid, moid int64 }

func (s scope) key() scopeKey {
	part := func(id *int32) int64 {
		if id == nil {
			return math.MinInt64
		}
		return int64(*id)
	}
	return scopeKey{part(s.CID), part(s.MOID)}
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

// Retention lists the policies, by tenant and quantity.
func (s *Store) Retention() []Retention {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	var all []Retention
	for i := range s.manifest.policies {
		if p := &s.manifest.policies[i]; !p.removed() {
			r := p.retention()
			r.Held = r.Held || s.manifest.steps.Held
			all = append(all, r)
		}
	}
	return all
}

func (p *policyMeta) retention() Retention {
	return Retention{CID: p.CID, MOID: p.MOID, MaxCapAgeNs: p.MaxCapAgeNs,
		MaxAcqAgeNs: p.MaxAcqAgeNs, DelayNs: p.DelayNs, Held: p.Held}
}

// SetRetention sets the policy for a tenant and quantity, in place of the one that there was. Rows
// that are too old are hidden from every view on return, and more of them step by step from then
// on; the merger removes them once the delay is over. Until then a policy that is made longer, or
// removed, shows again what it does not hide any more; what has been released for removal stays
// away. A policy without ages is removed. While the time is in doubt, or the policy is held,
// nothing is hidden.
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
	timeNs := s.provenTime()
	return s.changeEvents(ctx, 1, func(acqNs int64) (edit, error) {
		return s.manifest.retentionEdit(&r, moment{acqNs: acqNs, timeNs: timeNs})
	})
}

// drops reports whether a policy is one without ages, which takes that of its scope away.
func (r *Retention) drops() bool { return r.MaxCapAgeNs == 0 && r.MaxAcqAgeNs == 0 }

// retentionEdit is the edit that sets a policy, or removes it.
func (m *manifest) retentionEdit(r *Retention, at moment) (edit, error) {
	sc := scope{r.CID, r.MOID}
	i, known := m.findPolicy(sc)
	p := newPolicy(r)
	if known {
		p = m.policies[i]
	}
	switch {
	case r.drops() && (!known || p.removed()):
		return edit{}, fmt.Errorf("%w for %v", ErrNoRetention, sc)
	case !known && len(m.policies) >= maxPolicies:
		return edit{}, ErrTooManyEvents
	}
	p.MaxCapAgeNs, p.MaxAcqAgeNs, p.DelayNs = r.MaxCapAgeNs, r.MaxAcqAgeNs, r.DelayNs
	if r.drops() {
		p.Held = false
	}
	if !m.steps.Held || r.drops() {
		p.hide(at, true)
	}
	if p.isEmpty() {
		return edit{DropPolicies: []scope{sc}}, nil
	}
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
	p.hide(moment{acqNs: nowNs, timeNs: nowNs}, true)
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
		MaxAcqAgeNs: r.MaxAcqAgeNs, DelayNs: r.DelayNs}
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
	case r.DelayNs < 0:
		return bad("delay", fmt.Sprintf("%d ns is negative", r.DelayNs))
	}
	return nil
}

// provenTime is what the time provably is by the store's own clock, 0 when that is in doubt.
func (s *Store) provenTime() int64 { return s.retentionClock.proven(s.time.Read()) }

// advanceRetention makes the policies take a step when one is due. Those of a replica take theirs
// when its log says so.
func (s *Store) advanceRetention(ctx context.Context) error {
	if s.replicated {
		return nil
	}
	timeNs := s.provenTime()
	ranNs, due := s.stepDue(timeNs)
	if !due {
		return nil
	}
	return s.changeEvents(ctx, 1, func(acqNs int64) (edit, error) {
		return s.manifest.stepEdit(moment{acqNs, timeNs, ranNs}), nil
	})
}

// RetentionStep returns the command with which the policies of a replica take the step that is due
// now by a clock; ok is false when none is. The node that leads the group calls it
// every few seconds.
func (s *Store) RetentionStep(now clock.Reading) (command []byte, ok bool) {
	timeNs := s.retentionClock.proven(now)
	ranNs, due := s.stepDue(timeNs)
	if !due {
		return nil, false
	}
	return appendStep(nil, timeNs, ranNs), true
}

// stepDue reports whether a step would do anything at a time, and for how long nodes have run.
func (s *Store) stepDue(timeNs int64) (ranNs int64, due bool) {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	m := s.manifest
	ranNs = m.steps.RanNs + s.retentionClock.ran()
	return ranNs, m.copied == nil && m.stepEdit(moment{1, timeNs, ranNs}).Time != nil
}

// stepEdit is the edit of a step: of the policies whose floors are far enough from where they
// belong, or only of how late it is; empty when nothing is due.
func (m *manifest) stepEdit(at moment) (e edit) {
	if at.timeNs == 0 || m.steps.Held {
		return e
	}
	at.ranNs = max(at.ranNs, m.steps.RanNs)
	tick, some := int64(tickEvery), false
	for _, p := range m.policies {
		if p.Held || p.removed() {
			continue
		}
		some, tick = true, min(tick, p.tick())
		if p.step(at) {
			e.Policies = append(e.Policies, p)
		}
	}
	late := absDiff(at.timeNs, m.steps.TimeNs) >= uint64(tickEvery) ||
		at.ranNs-m.steps.RanNs >= tick
	if len(e.Policies) > 0 || some && late {
		e.Time = &timeMeta{TimeNs: at.timeNs, RanNs: at.ranNs}
	}
	return e
}

// retainLoop lets the policies take their steps, purges go on that had no room, and what was
// released leave the log.
func (s *Store) retainLoop() {
	tick := time.NewTicker(s.opt.retainEvery)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var end logEnd
	for {
		select {
		case <-tick.C:
			end, _ = s.noteQuietLog(end) // the manifest has its failure, which it reports
			_ = s.advanceRetention(ctx)  // the next tick tries again
			_ = s.onCommitter(ctx, s.resumePurges)
			_ = s.onCommitter(ctx, s.emptyReleased)
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
