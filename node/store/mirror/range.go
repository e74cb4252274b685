// Package mirror has what a copy of a store takes: all that the store has in a range of acq.
//
// It does not know stores, nor how a range gets from one to another. Its main type is [Range]. It
// starts no goroutine.
package mirror

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// Range is all that a store has between two acqs in a box: it makes the copy that stands at the
// first stand at the second.
type Range struct {
	Of           string     // identity of the store that it is of
	Timeline     uint64     // of the lineage of that store, at ToNs; 0: it has none
	Box          record.Box // what the copy is of: the same for each range, without acq
	FromNs, ToNs int64
	Rows         *record.Batch // stamped, by ascending acq; nil: none
	Events       []event.Event // erases and purges, by ascending acq
	// Policies are all that the store has at ToNs, when it has them or, with Whole unset, some
	// that took steps. Steps from ToNs on are left for the next range.
	Policies []retention.Policy
	Whole    bool // Policies are all: others are dropped
}

// Len returns how many rows it has.
func (r *Range) Len() int {
	if r.Rows == nil {
		return 0
	}
	return r.Rows.Len()
}

// Validate checks a range by itself, and normalises its boxes.
//
// Errors: *record.InvalidError.
func (r *Range) Validate() error {
	bad := func(part, format string, args ...any) error {
		return &record.InvalidError{Part: part, Reason: record.OutOfRange, Row: -1,
			Detail: fmt.Sprintf(format, args...)}
	}
	if r.Of == "" {
		return bad("store", "no store is named")
	}
	if r.FromNs < 0 || r.ToNs <= r.FromNs || r.ToNs == math.MaxInt64 {
		return bad("acq", "from %d to %d is no range", r.FromNs, r.ToNs)
	}
	if err := r.Box.Normalize(); err != nil {
		return err
	}
	if len(r.Box[record.Acq]) > 0 {
		return bad("acq", "a copy is of all acqs, or it would have gaps")
	}
	before := r.FromNs - 1
	for i := range r.Events {
		e := &r.Events[i]
		if e.Kind != event.Erase && e.Kind != event.Purge {
			return bad("event", "its kind is %d", e.Kind)
		}
		if e.AcqNs <= before || e.AcqNs >= r.ToNs {
			return bad("event", "acq %d does not lie in its place from %d to %d", e.AcqNs,
				r.FromNs, r.ToNs)
		}
		if err := e.Box.Normalize(); err != nil {
			return err
		}
		before = e.AcqNs
	}
	if len(r.Policies) > retention.MaxPolicies {
		return bad("policy", "%d of them, at most %d", len(r.Policies), retention.MaxPolicies)
	}
	for i := range r.Policies {
		p := &r.Policies[i]
		rule := p.Rule()
		if err := rule.Validate(); err != nil {
			return err
		}
		if max(len(p.Cap.Gone), len(p.Acq.Gone)) > retention.MaxRemovable {
			return bad("policy", "it has more than %d removable bounds", retention.MaxRemovable)
		}
	}
	return r.validateRows()
}

func (r *Range) validateRows() error {
	if r.Len() == 0 {
		return nil
	}
	if err := r.Rows.Validate(); err != nil {
		return err
	}
	if len(r.Rows.AcqNs) != r.Rows.Len() {
		return &record.InvalidError{Part: "acq", Reason: record.Inconsistent, Row: -1,
			Detail: "the rows are not stamped"}
	}
	before := r.FromNs - 1
	for i, acq := range r.Rows.AcqNs {
		if acq <= before || acq >= r.ToNs || !r.Box.Contains(r.Rows.Key(i)) {
			return &record.InvalidError{Part: "acq", Reason: record.OutOfRange, Row: i,
				Detail: fmt.Sprintf("the row with acq %d does not ascend from %d to %d, or lies "+
					"outside of the box", acq, r.FromNs, r.ToNs)}
		}
		before = acq
	}
	return nil
}

// Above leaves out what a copy has already that ends at an acq.
func (r *Range) Above(acqNs int64) *Range {
	if r.FromNs >= acqNs {
		return r
	}
	out := *r
	out.FromNs, out.Events, out.Rows = acqNs, nil, nil
	for _, e := range r.Events {
		if e.AcqNs >= acqNs {
			out.Events = append(out.Events, e)
		}
	}
	if r.Len() > 0 {
		if k, _ := slices.BinarySearch(r.Rows.AcqNs, acqNs); k < r.Rows.Len() {
			out.Rows = &record.Batch{}
			out.Rows.AppendRows(r.Rows, k, r.Rows.Len())
		}
	}
	return &out
}

// IdentityBytes is the length of the identity of a store or group, which is written in hex digits.
const IdentityBytes = 16

// CheckIdentity wants the identity of a store.
//
// Errors: *record.InvalidError.
func CheckIdentity(of string) error {
	if id, err := hex.DecodeString(of); err != nil || len(id) != IdentityBytes {
		return &record.InvalidError{Part: "store", Reason: record.OutOfRange, Row: -1,
			Detail: fmt.Sprintf("%.40q is not the identity of a store, 32 hex digits", of)}
	}
	return nil
}
