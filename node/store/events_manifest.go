package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/store/event"
)

// removal says how many of the rows of a purge are gone.
type removal struct {
	AcqNs int64  `json:"acq_ns"`
	Rows  uint64 `json:"rows"`
}

// applyEvents changes events as an edit says.
func (m *manifest) applyEvents(e *edit) error {
	for i := range e.Events {
		next, err := e.Events[i].Event()
		if err != nil {
			return err
		}
		if n := len(m.events); n > 0 && m.events[n-1].AcqNs >= next.AcqNs {
			return errors.New("events are out of order")
		}
		m.events = append(m.events, next)
	}
	for _, r := range e.Removed {
		i := m.findEvent(r.AcqNs)
		if i < 0 {
			return fmt.Errorf("removes rows for event %d, which is not there", r.AcqNs)
		}
		m.events[i].Removed += r.Rows
	}
	for _, acq := range e.Done {
		i := m.findEvent(acq)
		if i < 0 {
			return fmt.Errorf("ends event %d, which is not there", acq)
		}
		m.events[i].Done = true
	}
	return nil
}

// goneRange is log indexes of a shard of which no row is left: all were purged.
type goneRange struct {
	Shard      uint32 `json:"shard"`
	FirstIndex uint64 `json:"first_index"`
	LastIndex  uint64 `json:"last_index"`
}

// applyGone notes what is gone after an edit. What a segment covers needs no note any more.
func (m *manifest) applyGone(e *edit) error {
	for _, g := range e.Gone {
		if int64(g.Shard) >= 2*int64(m.shards) || g.FirstIndex > g.LastIndex {
			return fmt.Errorf("log indexes %d to %d of shard %d of %d are gone", g.FirstIndex,
				g.LastIndex, g.Shard, m.shards)
		}
		m.gone = append(m.gone, g)
	}
	for _, s := range e.Add {
		m.gone = slices.DeleteFunc(slices.Clone(m.gone), func(g goneRange) bool {
			return g.Shard == s.Shard && s.FirstIndex <= g.FirstIndex && g.LastIndex <= s.LastIndex
		})
	}
	if len(e.Gone) > 0 {
		m.gone = joinGone(m.gone)
	}
	return nil
}

// joinGone sorts ranges and joins those that continue one another.
func joinGone(all []goneRange) []goneRange {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b goneRange) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.FirstIndex, b.FirstIndex))
	})
	joined := all[:0]
	for _, g := range all {
		if n := len(joined); n > 0 && joined[n-1].Shard == g.Shard &&
			joined[n-1].LastIndex+1 >= g.FirstIndex {
			joined[n-1].LastIndex = max(joined[n-1].LastIndex, g.LastIndex)
		} else {
			joined = append(joined, g)
		}
	}
	return joined
}

// endOf returns the log index up to which segments, and rows that are gone, cover a shard from an
// index on without a hole.
func (m *manifest) endOf(shard uint32, next uint64) uint64 {
	for _, g := range m.gone {
		if g.Shard == shard && g.FirstIndex <= next {
			next = max(next, g.LastIndex+1)
		}
	}
	return next
}

// changesHistory reports whether scans see something new after an edit.
func (e *edit) changesHistory() bool {
	return len(e.Events) > 0 || len(e.Policies) > 0 || len(e.DropPolicies) > 0 || e.Time != nil
}

// addRemoved adds to the rows of purges that leave with an edit.
func (e *edit) addRemoved(more []removal) {
	for _, r := range more {
		at := slices.IndexFunc(e.Removed, func(o removal) bool { return o.AcqNs == r.AcqNs })
		if at < 0 {
			e.Removed = append(e.Removed, r)
		} else {
			e.Removed[at].Rows += r.Rows
		}
	}
}

// purges reports whether rows are to leave the log after an edit.
func (e *edit) purges() bool {
	return slices.ContainsFunc(e.Events, func(m event.Meta) bool { return m.Kind.Purges() })
}

func (m *manifest) findEvent(acqNs int64) int {
	return slices.IndexFunc(m.events, func(e event.Event) bool { return e.AcqNs == acqNs })
}

// lastEvent returns the greatest acq of an event, or of what a step of a retention left; -1: none.
func (m *manifest) lastEvent() int64 {
	last := int64(-1)
	for i := range m.events {
		if m.events[i].Kind != event.Split {
			last = max(last, m.events[i].AcqNs)
		}
	}
	for i := range m.policies {
		last = max(last, m.policies[i].LastAcq())
	}
	return last
}

// maxEvents bounds the erases and purges of a store: each new one has the tree of all planted anew,
// in some milliseconds, and a scan of everything looks at all of their boxes.
const maxEvents = 1 << 14

// eventEdit is the edit of an erase or purge.
func (m *manifest) eventEdit(e *event.Event) (edit, error) {
	if len(m.events) >= maxEvents {
		return edit{}, ErrTooManyEvents
	}
	return edit{Events: []event.Meta{event.MetaOf(e)}}, nil
}

// ErrTooManyEvents means that there are as many erases and purges, or policies, as a store
// takes.
var ErrTooManyEvents = errors.New("too many erases and purges or retention policies; one with " +
	"a larger box does the work of many")
