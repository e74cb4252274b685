package slots

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// Range is the slots [From, To).
type Range struct{ From, To uint32 }

// Contains reports whether the range contains a slot.
func (r Range) Contains(slot uint32) bool { return r.From <= slot && slot < r.To }

// Within reports whether the range is inside another.
func (r Range) Within(o Range) bool { return o.From <= r.From && r.To <= o.To }

// Has reports whether the range contains the slot of a device.
func (r Range) Has(cid int32, mid int64) bool { return r.Contains(Of(cid, mid)) }

// Map maps slots to parts by the range of each part. It is immutable.
type Map struct {
	firsts []uint32 // of the ranges, ascending
	owners []int    // the part of each
}

// NewMap returns the map of parts by their ranges; ok is false unless each slot has one owner.
func NewMap(ranges []Range) (m *Map, ok bool) {
	m = &Map{}
	order := make([]int, len(ranges))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(ranges[a].From, ranges[b].From)
	})
	next := uint32(0)
	for _, part := range order {
		r := ranges[part]
		if r.From != next || r.To <= r.From {
			return nil, false
		}
		m.firsts, m.owners = append(m.firsts, r.From), append(m.owners, part)
		next = r.To
	}
	return m, next == Count
}

// Len returns the number of parts.
func (m *Map) Len() int { return len(m.owners) }

// Part returns the part that owns a slot.
func (m *Map) Part(slot uint32) int {
	i, found := slices.BinarySearch(m.firsts, slot)
	if !found {
		i--
	}
	return m.owners[i]
}

// Parts is [Parts] of such parts.
func (m *Map) Parts(box *record.Box) []bool {
	slots, ok := named(box)
	if !ok {
		return nil
	}
	wanted := make([]bool, m.Len())
	for _, slot := range slots {
		wanted[m.Part(slot)] = true
	}
	return wanted
}
