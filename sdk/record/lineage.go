package record

import (
	"fmt"
	"math"
	"slices"
)

// MaxLineage is how many timelines a lineage keeps: as many restarts later the oldest is forgotten,
// and what was remembered under it cannot be continued. 1,024 take 16 KiB on the wire.
const MaxLineage = 1024

// Timeline is the acqs that one opening of a store gave: those from FromNs on, up to where the next
// timeline of the lineage begins. FromNs is where the directory ended when it was opened, as the
// directory itself knew it; the wall clock may have been far ahead.
type Timeline struct {
	ID     uint64 `json:"id,string"` // drawn at random; 0: none
	FromNs int64  `json:"from_acq_ns"`
}

// Lineage is the timelines of a store, ascending by FromNs. A directory that is put back from an
// older copy, or one of two copies that are both opened, begins a timeline where the copy ended,
// and so tells that it lacks what the other one has from there on.
type Lineage []Timeline

// With returns the lineage with a timeline, which ends those that begin at its FromNs or later:
// no acq was allocated under them. The receiver stays as it was.
func (l Lineage) With(t Timeline) Lineage {
	kept := len(l)
	for kept > 0 && l[kept-1].FromNs >= t.FromNs {
		kept--
	}
	first := max(0, kept+1-MaxLineage)
	return append(append(make(Lineage, 0, kept-first+1), l[first:kept]...), t)
}

// At returns the timeline of the greatest acq below untilNs: what a reader keeps together with
// untilNs to go on from there, see [Lineage.Lacks]. It is 0 where the lineage does not reach back.
func (l Lineage) At(untilNs int64) (id uint64) {
	for _, t := range l {
		if t.FromNs < untilNs {
			id = t.ID
		}
	}
	return id
}

// Lacks says why a store with this lineage does not have what a reader has who got all acqs below
// untilNs, the last of them of the timeline id. It is nil when nothing is missing, and for id 0,
// of which nothing is known.
func (l Lineage) Lacks(id uint64, untilNs int64) *LackError {
	if id == 0 {
		return nil
	}
	for i, t := range l {
		if t.ID != id {
			continue
		}
		if i+1 == len(l) || l[i+1].FromNs >= untilNs {
			return nil
		}
		return &LackError{FromNs: l[i+1].FromNs, UntilNs: untilNs, Known: true}
	}
	return &LackError{UntilNs: untilNs}
}

// Fork returns from which acq on two lineages differ, false when they have no timeline in common.
func (l Lineage) Fork(other Lineage) (fromNs int64, known bool) {
	for i := len(l) - 1; i >= 0; i-- {
		k := slices.IndexFunc(other, func(t Timeline) bool { return t.ID == l[i].ID })
		if k < 0 {
			continue
		}
		fromNs = math.MaxInt64
		for _, next := range []Lineage{l[i+1:], other[k+1:]} {
			if len(next) > 0 {
				fromNs = min(fromNs, next[0].FromNs)
			}
		}
		return fromNs, true
	}
	return 0, false
}

// Check reports a lineage that no store writes.
func (l Lineage) Check() error {
	if len(l) > MaxLineage {
		return fmt.Errorf("a lineage of %d timelines; at most %d", len(l), MaxLineage)
	}
	for i, t := range l {
		if t.ID == 0 || i > 0 && t.FromNs <= l[i-1].FromNs {
			return fmt.Errorf("timeline %d of a lineage begins at acq %d", t.ID, t.FromNs)
		}
	}
	return nil
}

// LackError means that a store is not the one of which a reader has the acqs below UntilNs: its
// directory was put back from an older copy, was repaired, or is one of two copies that both went
// on. From FromNs on it has another history; not Known: from where on cannot be told.
type LackError struct {
	FromNs, UntilNs int64
	Known           bool
}

// Error implements error.
func (e *LackError) Error() string {
	const why = "its directory was put back from an older copy, was repaired, or is one of two " +
		"copies that both went on"
	if e.Known {
		return fmt.Sprintf("the store does not have the records with acqs from %d up to %d: %s",
			e.FromNs, e.UntilNs, why)
	}
	return fmt.Sprintf("the store does not have all records with acqs below %d: %s", e.UntilNs, why)
}
