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

// Map maps slots to groups by the range of each group. It is immutable.
type Map struct {
	firsts []uint32  // of the ranges, ascending
	owners []GroupID // the group of each
}

// NewMap returns the map of groups by their ranges, of which the first is that of group 1; ok is
// false unless each slot has one owner.
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
	for _, i := range order {
		r := ranges[i]
		if r.From != next || r.To <= r.From {
			return nil, false
		}
		m.firsts, m.owners = append(m.firsts, r.From), append(m.owners, GroupID(i+1))
		next = r.To
	}
	return m, next == Count
}

// Len returns the number of groups.
func (m *Map) Len() int { return len(m.owners) }

// Group returns the group that owns a slot.
func (m *Map) Group(slot uint32) GroupID {
	i, found := slices.BinarySearch(m.firsts, slot)
	if !found {
		i--
	}
	return m.owners[i]
}

// Groups returns the groups that can hold devices of the box, ascending; nil when all can.
func (m *Map) Groups(box *record.Box) []GroupID {
	slots, ok := named(box)
	if !ok {
		return nil
	}
	wanted := make([]GroupID, len(slots))
	for i, slot := range slots {
		wanted[i] = m.Group(slot)
	}
	slices.Sort(wanted)
	return slices.Compact(wanted)
}
