package event

import (
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
)

// Meta is an event as the manifest has it.
type Meta struct {
	AcqNs     int64  `json:"acq_ns"`
	Kind      Kind   `json:"kind"`
	Box       Box    `json:"box"`
	Done      bool   `json:"done,omitempty"`
	Removed   uint64 `json:"removed,omitempty"`
	KeptSlots *Slots `json:"kept_slots,omitempty"` // of a split
}

// Slots is slots [from, to).
type Slots [2]uint32

// SlotsOf returns a range as the manifest has it.
func SlotsOf(r slots.Range) *Slots { return &Slots{r.From, r.To} }

// Range returns the range; ok is false where there can be none such.
func (m *Slots) Range() (r slots.Range, ok bool) {
	r = slots.Range{From: m[0], To: m[1]}
	return r, r.From < r.To && r.To <= slots.Count
}

// MetaOf returns an event as the manifest has it.
func MetaOf(e *Event) Meta {
	m := Meta{AcqNs: e.AcqNs, Kind: e.Kind, Box: BoxOf(&e.Box), Done: e.Done, Removed: e.Removed}
	if e.Kind == Split {
		m.KeptSlots = SlotsOf(e.KeptSlots)
	}
	return m
}

// Event returns the event; its box is normalized.
//
// Errors: kinds and slots that this version does not know; *record.InvalidError of its box.
func (m *Meta) Event() (Event, error) {
	e := Event{AcqNs: m.AcqNs, Kind: m.Kind, Done: m.Done, Removed: m.Removed}
	ok := true
	switch {
	case e.Kind == Split && m.KeptSlots != nil:
		e.KeptSlots, ok = m.KeptSlots.Range()
	case e.Kind != Erase && e.Kind != Purge || m.KeptSlots != nil:
		return e, fmt.Errorf("event of kind %d; this version knows 1, 2 and 4", e.Kind)
	}
	if !ok {
		return e, fmt.Errorf("a split keeps slots %d to %d", m.KeptSlots[0], m.KeptSlots[1])
	}
	var err error
	e.Box, err = ParseBox(&m.Box)
	return e, err
}

// Box is a box as the manifest has it: cid, mid, moid, cap, acq; null: all.
type Box [record.NumDims][]span

type span [2]int64 // from, to

// BoxOf returns a box as the manifest has it.
func BoxOf(box *record.Box) (m Box) {
	for d, set := range box {
		for _, r := range set {
			m[d] = append(m[d], span{r.From, r.To})
		}
	}
	return m
}

// ParseBox returns the box, normalized.
//
// Errors: *record.InvalidError.
func ParseBox(m *Box) (box record.Box, err error) {
	for d, set := range m {
		for _, r := range set {
			box[d] = append(box[d], record.Range{From: r[0], To: r[1]})
		}
	}
	return box, box.Normalize()
}

// SameBox reports whether two boxes are written alike.
func SameBox(a, b *Box) bool {
	for d := range a {
		if !slices.Equal(a[d], b[d]) {
			return false
		}
	}
	return true
}
