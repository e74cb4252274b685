package retention

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/pentad-db/pentad/sdk/record"
)

// MaxPolicies bounds the policies of a store, of which each is an event or two.
const MaxPolicies = 4096

// ErrNoPolicy means that there is no policy for a tenant and quantity.
var ErrNoPolicy = errors.New("there is no policy")

// Rule says how old the rows of a tenant and quantity get.
type Rule struct {
	CID, MOID   *int32 // nil: all
	MaxCapAgeNs int64  // rows whose capture is longer ago expire; 0: never
	MaxAcqAgeNs int64  // rows whose acquisition is longer ago expire; 0: never
	// DelayNs is how long rows that have expired are only hidden, while nodes run, before their
	// bytes may be removed; 0: a tenth of the age, between an hour and three days.
	DelayNs int64
	Held    bool // it takes no steps, see [Hold]; to set a rule leaves that alone
}

// Scope is what a policy applies to; there is one policy for each.
type Scope struct {
	CID  *int32 `json:"cid,omitempty"`
	MOID *int32 `json:"moid,omitempty"`
}

// String returns the scope as errors show it.
func (s Scope) String() string {
	part := func(id *int32) string {
		if id == nil {
			return "*"
		}
		return strconv.Itoa(int(*id))
	}
	return fmt.Sprintf("cid %s, moid %s; pentad retention list shows those that there are",
		part(s.CID), part(s.MOID))
}

// ScopeKey is a scope that can be compared; the least int64 is for all.
type ScopeKey struct{ cid, moid int64 }

// Key returns the scope as one that can be compared.
func (s Scope) Key() ScopeKey {
	part := func(id *int32) int64 {
		if id == nil {
			return math.MinInt64
		}
		return int64(*id)
	}
	return ScopeKey{part(s.CID), part(s.MOID)}
}

// Compare orders scopes by cid, then moid, those that apply to all first.
func (s Scope) Compare(o Scope) int {
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

// Rule returns what a policy was set to.
func (p *Policy) Rule() Rule {
	return Rule{CID: p.CID, MOID: p.MOID, MaxCapAgeNs: p.MaxCapAgeNs,
		MaxAcqAgeNs: p.MaxAcqAgeNs, DelayNs: p.DelayNs, Held: p.Held}
}

// Drops reports whether a policy is one without ages, which takes that of its scope away.
func (r *Rule) Drops() bool { return r.MaxCapAgeNs == 0 && r.MaxAcqAgeNs == 0 }

// Expired returns how many rows a policy would hide if it were set at a time, of those that ask
// counts.
func (r Rule) Expired(
	nowNs int64, ask func(q *record.Query) (uint64, error),
) (rows uint64, err error) {
	if err := r.Validate(); err != nil {
		return 0, err
	}
	p := NewPolicy(&r)
	p.Hide(StepTime{AcqNs: nowNs, TimeNs: nowNs}, true)
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
	steps := p.Events()
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

// NewPolicy returns a policy that has hidden nothing yet.
func NewPolicy(r *Rule) Policy {
	return Policy{Scope: Scope{r.CID, r.MOID}, MaxCapAgeNs: r.MaxCapAgeNs,
		MaxAcqAgeNs: r.MaxAcqAgeNs, DelayNs: r.DelayNs}
}

// Validate says what is wrong with a rule by itself.
//
// Errors: *record.InvalidError.
func (r *Rule) Validate() error {
	bad := func(part, detail string) error {
		return &record.InvalidError{Part: part, Reason: record.OutOfRange, Row: -1, Detail: detail}
	}
	switch {
	case r.CID != nil && (*r.CID < 0 || *r.CID == math.MaxInt32):
		return bad("cid", fmt.Sprintf("%d is not a tenant", *r.CID))
	case r.MOID != nil && *r.MOID == math.MaxInt32:
		return bad("moid", fmt.Sprintf("%d is not a quantity", *r.MOID))
	case r.MaxCapAgeNs < 0:
		return bad("max cap age", fmt.Sprintf("%d ns is negative", r.MaxCapAgeNs))
	case r.MaxAcqAgeNs < 0:
		return bad("max acq age", fmt.Sprintf("%d ns is negative", r.MaxAcqAgeNs))
	case r.DelayNs < 0:
		return bad("delay", fmt.Sprintf("%d ns is negative", r.DelayNs))
	}
	return nil
}
