// Package tombstone has erases, purges and steps of retentions as scans and merges see them: range
// tombstones, each of which covers the rows of a box, and a tree that finds those over a box.
//
// It does not know rows nor files: who scans asks what a row or a box is covered by. Its main type
// is [Set], which is immutable. It starts no goroutine.
package tombstone

import (
	"cmp"
	"math"
	"slices"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// Range is a range tombstone, an event as scans and merges see it: it covers the rows of a box,
// whose acq ends at that of the event.
type Range struct {
	Box       record.Box
	bounds    bounds.Box // of box
	AcqNs     int64
	Kind      event.Kind
	KeptSlots slots.Range // of a split, with To > 0: only devices outside these slots are covered

	// HideOnly is of a step of a retention: scans leave the rows out, merges and seals must keep
	// them, until a tombstone in Set.Removable covers them too.
	HideOnly bool
	Removal  retention.Removal // of a retention: the removal of its rows
}

// Contains reports whether the tombstone covers a row.
func (r *Range) Contains(k record.Key) bool {
	return r.Box.Contains(k) && (r.KeptSlots.To == 0 || !r.KeptSlots.Has(k.CID, k.MID))
}

// FirstOver returns the first of some tombstones that covers a row, nil for none.
func FirstOver(all []*Range, k record.Key) *Range {
	for _, r := range all {
		if r.Contains(k) {
			return r
		}
	}
	return nil
}

// Of returns the tombstone of an event; ok is false if the box lies above the event's acq.
func Of(e *event.Event) (r *Range, ok bool) {
	r = &Range{Box: e.Box, AcqNs: e.AcqNs, Kind: e.Kind, KeptSlots: e.KeptSlots}
	if e.Kind == event.Split {
		r.Kind = event.Purge
	}
	below := record.RangeSet{{From: math.MinInt64, To: e.AcqNs}}
	if set := e.Box[record.Acq]; len(set) > 0 {
		below = bounds.Clip(set, e.AcqNs)
	}
	r.Box[record.Acq] = below
	r.bounds = bounds.Of(&r.Box)
	return r, len(below) > 0
}

// Set is the immutable set of all range tombstones, oldest first. A change publishes a new one.
type Set struct {
	tombstones []*Range // that may cover rows which are stored
	// Removable are those whose rows merges and seals leave out. A held policy has none.
	Removable []*Range

	Ages []retention.AgeRule // the shortest windows first

	// NewestPurge is the acq of the newest purge or split, NewestRemovable that of the newest of
	// these and of Removable; 0: none.
	NewestPurge, NewestRemovable int64

	// Tree finds the tombstones that meet a box. Purged is of purges and of what retentions hide;
	// HistoryChanges also of what retentions hid before an undo: answers from before may differ
	// from those after it.
	Tree, Purged, HistoryChanges *Tree

	Events []event.Event // erases, purges and the present steps of retentions
}

// NewSet returns the range tombstones of events, with splits and the present steps of policies,
// oldest first. Held says that no policy lets rows be removed.
func NewSet(events []event.Event, policies []retention.Policy, held bool) *Set {
	next := &Set{Ages: retention.Ages(policies)}
	var purged, historyChanges []*Range
	for _, e := range events {
		if e.Kind != event.Split {
			next.Events = append(next.Events, e)
		}
		r, ok := Of(&e)
		if !ok {
			continue
		}
		r.HideOnly = e.Kind == event.Retention
		if !e.Done {
			next.tombstones = append(next.tombstones, r)
			if e.Kind.Purges() {
				next.Removable = append(next.Removable, r)
			}
		}
		if e.Kind.Purges() {
			next.NewestPurge = max(next.NewestPurge, e.AcqNs)
		}
		if e.Kind == event.Purge || e.Kind == event.Retention {
			purged = append(purged, r)
		}
	}
	historyChanges, next.NewestRemovable = slices.Clone(purged), next.NewestPurge
	for i := range policies {
		p := &policies[i]
		for _, e := range p.Unhidden() {
			if r, ok := Of(&e); ok {
				historyChanges = append(historyChanges, r)
			}
		}
		if p.Held || held {
			continue
		}
		p.EachRemovable(func(e event.Event, removal retention.Removal) {
			if r, ok := Of(&e); ok {
				r.Removal = removal
				next.Removable = append(next.Removable, r)
			}
		})
	}
	slices.SortStableFunc(next.Removable, func(a, b *Range) int {
		return cmp.Compare(a.AcqNs, b.AcqNs)
	})
	for _, r := range next.Removable {
		next.NewestRemovable = max(next.NewestRemovable, r.AcqNs)
	}
	next.Tree, next.Purged = NewTree(next.tombstones), NewTree(purged)
	if next.HistoryChanges = next.Purged; len(historyChanges) > len(purged) {
		next.HistoryChanges = NewTree(historyChanges)
	}
	return next
}

// middle is the center of a tombstone, precise enough to sort by.
func (r *Range) middle(d record.Dim) float64 {
	return float64(r.bounds[d].Min)/2 + float64(r.bounds[d].Max)/2
}
