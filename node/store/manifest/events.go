package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/store/event"
)

// PurgedRows says how many of the rows of a purge are gone.
type PurgedRows struct {
	AcqNs int64  `json:"acq_ns"`
	Rows  uint64 `json:"rows"`
}

// applyEvents changes events as an edit says.
func (m *Manifest) applyEvents(e *Edit) error {
	for i := range e.Events {
		next, err := e.Events[i].Event()
		if err != nil {
			return err
		}
		if n := len(m.Events); n > 0 && m.Events[n-1].AcqNs >= next.AcqNs {
			return errors.New("its events are out of order")
		}
		m.Events = append(m.Events, next)
	}
	for _, r := range e.PurgedRows {
		i := m.FindEvent(r.AcqNs)
		if i < 0 {
			return fmt.Errorf("removes rows for event %d, which is not there", r.AcqNs)
		}
		m.Events[i].Removed += r.Rows
	}
	for _, acq := range e.PurgesDone {
		i := m.FindEvent(acq)
		if i < 0 {
			return fmt.Errorf("ends event %d, which is not there", acq)
		}
		m.Events[i].Done = true
	}
	return nil
}

// EmptyLSNRange is a range of log entries of a shard of which no row is left: all were purged.
type EmptyLSNRange struct {
	Shard    uint32 `json:"shard"`
	FirstLSN uint64 `json:"first_index"`
	LastLSN  uint64 `json:"last_index"`
}

// applyEmptyLSNRanges notes what is gone after an edit. What a segment covers needs no note any
// more.
func (m *Manifest) applyEmptyLSNRanges(e *Edit) error {
	for _, g := range e.EmptyLSNRanges {
		if int64(g.Shard) >= 2*int64(m.Shards) || g.FirstLSN > g.LastLSN {
			return fmt.Errorf("log entries %d to %d of shard %d of %d are gone", g.FirstLSN,
				g.LastLSN, g.Shard, m.Shards)
		}
		m.EmptyLSNRanges = append(m.EmptyLSNRanges, g)
	}
	for _, s := range e.Add {
		stay := slices.Clone(m.EmptyLSNRanges)
		m.EmptyLSNRanges = slices.DeleteFunc(stay, func(g EmptyLSNRange) bool {
			return g.Shard == s.Shard && s.FirstLSN <= g.FirstLSN && g.LastLSN <= s.LastLSN
		})
	}
	if len(e.EmptyLSNRanges) > 0 {
		m.EmptyLSNRanges = joinEmptyLSNRanges(m.EmptyLSNRanges)
	}
	return nil
}

// joinEmptyLSNRanges sorts ranges and joins those that continue one another.
func joinEmptyLSNRanges(all []EmptyLSNRange) []EmptyLSNRange {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b EmptyLSNRange) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.FirstLSN, b.FirstLSN))
	})
	joined := all[:0]
	for _, g := range all {
		if n := len(joined); n > 0 && joined[n-1].Shard == g.Shard &&
			joined[n-1].LastLSN+1 >= g.FirstLSN {
			joined[n-1].LastLSN = max(joined[n-1].LastLSN, g.LastLSN)
		} else {
			joined = append(joined, g)
		}
	}
	return joined
}

// SkipEmpty returns the first LSN of a shard, from next on, whose entry is not one without rows.
func (m *Manifest) SkipEmpty(shard uint32, next uint64) uint64 {
	for _, g := range m.EmptyLSNRanges {
		if g.Shard == shard && g.FirstLSN <= next {
			next = max(next, g.LastLSN+1)
		}
	}
	return next
}

// ChangesTombstones reports whether an edit changes the range tombstones: which rows scans hide.
func (e *Edit) ChangesTombstones() bool {
	return len(e.Events) > 0 || len(e.Policies) > 0 || len(e.DropPolicies) > 0 || e.Steps != nil
}

// AddPurgedRows adds to the rows of purges that leave with an edit.
func (e *Edit) AddPurgedRows(more []PurgedRows) {
	for _, r := range more {
		at := slices.IndexFunc(e.PurgedRows, func(o PurgedRows) bool { return o.AcqNs == r.AcqNs })
		if at < 0 {
			e.PurgedRows = append(e.PurgedRows, r)
		} else {
			e.PurgedRows[at].Rows += r.Rows
		}
	}
}

// Purges reports whether rows are to leave the log after an edit.
func (e *Edit) Purges() bool {
	return slices.ContainsFunc(e.Events, func(m event.Meta) bool { return m.Kind.Purges() })
}

// FindEvent returns the index of the event with an acq, -1 when there is none.
func (m *Manifest) FindEvent(acqNs int64) int {
	return slices.IndexFunc(m.Events, func(e event.Event) bool { return e.AcqNs == acqNs })
}

// LastEvent returns the greatest acq of an event, or of what a step of a retention left; -1: none.
func (m *Manifest) LastEvent() int64 {
	last := int64(-1)
	for i := range m.Events {
		if m.Events[i].Kind != event.Split {
			last = max(last, m.Events[i].AcqNs)
		}
	}
	for i := range m.Policies {
		last = max(last, m.Policies[i].LastAcq())
	}
	return last
}

// MaxEvents bounds the erases and purges of a store: each new one has the tree of all built again,
// in some milliseconds, and a scan of everything looks at all of their boxes.
const MaxEvents = 1 << 14

// EventEdit is the edit of erases or purges, with ascending acqs.
func (m *Manifest) EventEdit(events ...event.Event) (Edit, error) {
	if len(m.Events)+len(events) > MaxEvents {
		return Edit{}, ErrTooManyEvents
	}
	var edit Edit
	for i := range events {
		edit.Events = append(edit.Events, event.MetaOf(&events[i]))
	}
	return edit, nil
}

// ErrTooManyEvents means that there are as many erases and purges, or policies, as a store
// takes.
var ErrTooManyEvents = errors.New("too many erases and purges or retention policies; one with " +
	"a larger box does the work of many")
