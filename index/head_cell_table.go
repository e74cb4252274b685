package index

import (
	"math/bits"
	"math/rand/v2"
)

// cellTable finds cells by their keys. Its multipliers are secret, so that no one can choose ids
// that all want one slot.
type cellTable struct {
	slots                   []uint32 // hash -> number of the cell plus 1; at most half are taken
	shift                   int      // what it takes to make a slot of a hash
	rangeFactor, pairFactor uint64   // multipliers
}

// firstSlots is the size of a new table, a power of two.
const firstSlots = 64

func newCellTable() cellTable {
	return cellTable{slots: make([]uint32, firstSlots), shift: 64 - bits.TrailingZeros(firstSlots),
		rangeFactor: rand.Uint64() | 1, pairFactor: rand.Uint64() | 1}
}

// slot returns the slot where a key is looked for first.
func (t *cellTable) slot(key cellKey) uint64 {
	pair := uint64(uint32(key.cid))<<32 | uint64(uint32(key.moid))
	return (uint64(key.deviceRange)*t.rangeFactor + pair*t.pairFactor) >> t.shift
}

// find returns the number of the cell with a key.
func (h *Head) find(key cellKey) (id uint32, ok bool) {
	slot := h.cells.probe(h.list, key)
	if id = h.cells.slots[slot]; id == 0 {
		return 0, false
	}
	return id - 1, true
}

// cell returns the cell with a key, which it makes if there is none.
func (h *Head) cell(key cellKey) *cell {
	t := &h.cells
	slot := t.probe(h.list, key)
	if id := t.slots[slot]; id != 0 {
		return h.list[id-1]
	}
	h.list = append(h.list, &cell{key: key})
	h.leastMOID = min(h.leastMOID, key.moid)
	t.slots[slot] = uint32(len(h.list))
	if 2*len(h.list) > len(t.slots) {
		t.grow(h.list)
	}
	return h.list[len(h.list)-1]
}

// probe returns the slot that holds the cell with a key, or the free one where it belongs.
func (t *cellTable) probe(list []*cell, key cellKey) uint64 {
	slot := t.slot(key)
	for t.slots[slot] != 0 && list[t.slots[slot]-1].key != key {
		slot = (slot + 1) & uint64(len(t.slots)-1)
	}
	return slot
}

func (t *cellTable) grow(list []*cell) {
	t.slots = make([]uint32, 2*len(t.slots))
	t.shift--
	for id, c := range list {
		t.slots[t.probe(list, c.key)] = uint32(id + 1)
	}
}
