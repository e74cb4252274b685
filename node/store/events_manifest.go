package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
)

// eventMeta is an event as the manifest has it.
type eventMeta struct {
	AcqNs   int64                       `json:"acq_ns"`
	Kind    EventKind                   `json:"kind"`
	Box     [record.NumDims][]rangeMeta `json:"box"` // cid, mid, moid, cap, acq; null: all
	Done    bool                        `json:"done,omitempty"`
	Removed uint64                      `json:"removed,omitempty"`
	Kept    *slotsMeta                  `json:"kept_slots,omitempty"` // of a split
}

// slotsMeta is slots [from, to).
type slotsMeta [2]uint32

func slotsOf(r slots.Range) *slotsMeta { return &slotsMeta{r.From, r.To} }

// slots returns the range; ok is false where there can be none such.
func (m *slotsMeta) slots() (r slots.Range, ok bool) {
	r = slots.Range{From: m[0], To: m[1]}
	return r, r.From < r.To && r.To <= slots.Count
}

type rangeMeta [2]int64

// removal says how many of the rows of a purge are gone.
type removal struct {
	AcqNs int64  `json:"acq_ns"`
	Rows  uint64 `json:"rows"`
}

func metaOf(e *Event) eventMeta {
	m := eventMeta{AcqNs: e.AcqNs, Kind: e.Kind, Done: e.Done, Removed: e.Removed}
	for d, set := range e.Box {
		for _, r := range set {
			m.Box[d] = append(m.Box[d], rangeMeta{r.From, r.To})
		}
	}
	if e.Kind == eventSplit {
		m.Kept = slotsOf(e.kept)
	}
	return m
}

func (m *eventMeta) event() (Event, error) {
	e := Event{AcqNs: m.AcqNs, Kind: m.Kind, Done: m.Done, Removed: m.Removed}
	ok := true
	switch {
	case e.Kind == eventSplit && m.Kept != nil:
		e.kept, ok = m.Kept.slots()
	case e.Kind != EventErase && e.Kind != EventPurge || m.Kept != nil:
		return e, fmt.Errorf("event of kind %d; this version knows 1, 2 and 4", e.Kind)
	}
	if !ok {
		return e, fmt.Errorf("a split keeps slots %d to %d", m.Kept[0], m.Kept[1])
	}
	for d, set := range m.Box {
		for _, r := range set {
			e.Box[d] = append(e.Box[d], record.Range{From: r[0], To: r[1]})
		}
	}
	return e, e.Box.Normalize()
}

// applyEvents changes events as an edit says.
func (m *manifest) applyEvents(e *edit) error {
	for i := range e.Events {
		event, err := e.Events[i].event()
		if err != nil {
			return err
		}
		if n := len(m.events); n > 0 && m.events[n-1].AcqNs >= event.AcqNs {
			return errors.New("events are out of order")
		}
		m.events = append(m.events, event)
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
	return slices.ContainsFunc(e.Events, func(m eventMeta) bool { return m.Kind.purges() })
}

func (m *manifest) findEvent(acqNs int64) int {
	return slices.IndexFunc(m.events, func(e Event) bool { return e.AcqNs == acqNs })
}

// lastEvent returns the greatest acq of an event, or of what a step of a retention left; -1: none.
func (m *manifest) lastEvent() int64 {
	last := int64(-1)
	for i := range m.events {
		if m.events[i].Kind != eventSplit {
			last = max(last, m.events[i].AcqNs)
		}
	}
	for i := range m.policies {
		last = max(last, m.policies[i].lastAcq())
	}
	return last
}
