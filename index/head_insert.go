package index

import (
	"math/bits"
	"math/rand/v2"

	"github.com/pentad-db/pentad/sdk/record"
)

// enterRows is how many rows are looked up before they are put into their cells. Each row's cell
// and table lie somewhere else in memory: short loops that do nothing else wait for many at once.
const enterRows = 64

// arriving is a row on its way into its cell.
type arriving struct {
	cell *cell
	// sameHead says that the head has a row of the device with this cap or a greater one, once it
	// is known: in cells without a table it depends on the rows just before.
	sameHead, known bool
}

// enter puts the rows [from, to) of a batch, which arrived at a place, into their cells, and
// returns how many may supersede an older row.
func (h *Head) enter(b *record.Batch, from, to int, at place) (flagged int64) {
	var group [enterRows]arriving
	for from < to {
		rows := group[:min(enterRows, to-from)]
		h.lookUp(b, from, rows)
		flagged += h.enterGroup(b, from, rows, at)
		from += len(rows)
		at += place(len(rows))
	}
	return flagged
}

// lookUp finds the cells of rows, and notes their caps where cells have tables.
func (h *Head) lookUp(b *record.Batch, from int, rows []arriving) {
	var c *cell
	for k := range rows {
		i := from + k
		key := cellKey{b.CID[i], b.MOID[i], b.MID[i] >> cellShift}
		if c == nil || c.key != key {
			c = h.cell(key)
		}
		rows[k] = arriving{cell: c}
	}
	for k := range rows {
		r, i := &rows[k], from+k
		if r.cell.newest != nil {
			r.sameHead = r.cell.newest.raise(uint16(b.MID[i]&deviceMask), b.CapNs[i])
			r.known = true
		}
	}
}

func (h *Head) enterGroup(b *record.Batch, from int, rows []arriving, at place) (flagged int64) {
	p, n := h.rows.row(at)
	m := h.rows.memoryFor(0, 0)
	for k := range rows {
		c, sameHead, i := rows[k].cell, rows[k].sameHead, from+k
		r := entry{cap: b.CapNs[i], at: at, device: uint16(b.MID[i] & deviceMask)}
		if !rows[k].known {
			if c.newest == nil && c.rows >= tableRows {
				c.newest = c.tabulate(&h.newest)
				h.tables++
			}
			sameHead = c.raise(r.device, r.cap)
		}
		bucket := bucketOf(b.CID[i], b.MID[i], b.MOID[i])
		if sameHead {
			setBit(p.sameHead, n)
		}
		if sameHead || r.cap <= h.before[bucket] || p.rows.Tomb(n) {
			r.flagged = true
			setBit(p.flagged, n)
			flagged++
		}
		h.seen[bucket] = max(h.seen[bucket], r.cap)
		c.append(r, m)
		at++
		n++
	}
	return flagged
}

// cellTable finds cells by their keys. Its multipliers are secret, so that no one can choose ids
// that all want one slot.
type cellTable struct {
	slots       []uint32 // hash -> number of the cell plus 1; at most half of them are taken
	shift       int      // what it takes to make a slot of a hash
	block, pair uint64   // multipliers
}

// firstSlots is the size of a new table, a power of two.
const firstSlots = 64

func newCellTable() cellTable {
	return cellTable{slots: make([]uint32, firstSlots), shift: 64 - bits.TrailingZeros(firstSlots),
		block: rand.Uint64() | 1, pair: rand.Uint64() | 1}
}

// slot returns the slot where a key is looked for first.
func (t *cellTable) slot(key cellKey) uint64 {
	pair := uint64(uint32(key.cid))<<32 | uint64(uint32(key.moid))
	return (uint64(key.block)*t.block + pair*t.pair) >> t.shift
}

// find returns the number of the cell with a key.
func (h *Head) find(key cellKey) (id uint32, ok bool) {
	slot := h.cells.place(h.list, key)
	if id = h.cells.slots[slot]; id == 0 {
		return 0, false
	}
	return id - 1, true
}

// cell returns the cell with a key, which it makes if there is none.
func (h *Head) cell(key cellKey) *cell {
	t := &h.cells
	slot := t.place(h.list, key)
	if id := t.slots[slot]; id != 0 {
		return h.list[id-1]
	}
	h.list = append(h.list, &cell{key: key})
	t.slots[slot] = uint32(len(h.list))
	if 2*len(h.list) > len(t.slots) {
		t.grow(h.list)
	}
	return h.list[len(h.list)-1]
}

// place returns the slot that holds the cell with a key, or the free one where it belongs.
func (t *cellTable) place(list []*cell, key cellKey) uint64 {
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
		t.slots[t.place(list, c.key)] = uint32(id + 1)
	}
}
