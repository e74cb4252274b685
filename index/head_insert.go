package index

import "github.com/pentad-db/pentad/sdk/record"

// lookUpRows is how many rows are looked up before they are put into their cells. Each row's cell
// and maxCaps are somewhere else in memory: short loops that do nothing else wait for many at
// once.
const lookUpRows = 64

// cellInsert is a row on its way into its cell.
type cellInsert struct {
	cell *cell
	// supersedesInHead says that the head has a row of the device with this cap or a greater one,
	// so that this one may supersede it. It holds once compared is set, in cells without maxCaps
	// only when the rows just before are in: it depends on them.
	supersedesInHead, compared bool
}

// Insert adds rows that have their acqs, in acq order and above all rows before. Payloads are
// copied.
//
// Cost: about 10 ns a row, and 50 more once it goes into its cell.
func (h *Head) Insert(b *record.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for from := 0; from < b.Len(); {
		from += h.rows.append(b, from)
	}
	h.tombs.Add(int64(b.CountTombs()))
	h.rowCount.Add(int64(b.Len()))
	spare := h.rows.spare()
	h.bytes.Add(int64(len(b.Data)) + int64(b.Len())*rowMemory + int64(spare-h.spare))
	h.spare = spare
	if h.outsideCells.Add(int64(b.Len())) >= maxOutsideCells || b.Len() > manyOfCell*len(h.list) {
		h.fillCellsLocked()
	}
}

// fillCellsLocked is fillCells for a caller that holds mu.
func (h *Head) fillCellsLocked() {
	cells, withMaxCaps, capsMade, flagged := len(h.list), h.cellsWithMaxCaps, h.capsOf64Made,
		int64(0)
	for all := h.rows.len(); h.rowsInCells < all; {
		at := h.rows.nth(h.rowsInCells)
		g, from := h.rows.row(at)
		flagged += h.insertIntoCells(&g.rows, from, g.rows.Len(), at)
		h.rowsInCells = g.first + g.rows.Len()
	}
	h.flagged.Add(flagged)
	h.bytes.Add(int64(len(h.list)-cells)*cellMemory +
		int64(h.cellsWithMaxCaps-withMaxCaps)*maxCapsMemory +
		int64(h.capsOf64Made-capsMade)*capsOf64Memory)
	h.outsideCells.Store(0) // last: a reader that sees it need not wait
}

// insertIntoCells puts the rows [from, to) of a batch, which were appended at a row ID, into their
// cells, and returns how many may supersede an older row.
func (h *Head) insertIntoCells(b *record.Batch, from, to int, at rowID) (flagged int64) {
	var group [lookUpRows]cellInsert
	for from < to {
		rows := group[:min(lookUpRows, to-from)]
		h.lookUp(b, from, rows)
		flagged += h.insertSome(b, from, rows, at)
		from += len(rows)
		at += rowID(len(rows))
	}
	return flagged
}

// lookUp finds the cells of rows, and compares their caps where cells have maxCaps.
func (h *Head) lookUp(b *record.Batch, from int, rows []cellInsert) {
	var c *cell
	for k := range rows {
		i := from + k
		key := cellKey{b.CID[i], b.MOID[i], b.MID[i] >> cellShift}
		if c == nil || c.key != key {
			c = h.cell(key)
		}
		rows[k] = cellInsert{cell: c}
	}
	for k := range rows {
		r, i := &rows[k], from+k
		if r.cell.maxCaps != nil {
			r.supersedesInHead = r.cell.maxCaps.raise(uint16(b.MID[i]&deviceMask), b.CapNs[i])
			r.compared = true
		}
	}
}

// insertSome puts rows that were looked up into their cells, and returns how many are flagged.
func (h *Head) insertSome(b *record.Batch, from int, rows []cellInsert, at rowID) (flagged int64) {
	g, n := h.rows.row(at)
	m := h.rows.memoryFor(0, 0)
	for k := range rows {
		c, supersedesInHead, i := rows[k].cell, rows[k].supersedesInHead, from+k
		r := entry{cap: b.CapNs[i], at: at, device: uint16(b.MID[i] & deviceMask)}
		if !rows[k].compared {
			if c.maxCaps == nil && c.rows >= maxCapsRows {
				c.maxCaps = c.collectMaxCaps(&h.capsOf64Made)
				h.cellsWithMaxCaps++
			}
			supersedesInHead = c.raise(r.device, r.cap)
		}
		bucket := bucketOf(b.CID[i], b.MID[i], b.MOID[i])
		if supersedesInHead {
			setBit(g.supersedesInHead, n)
		}
		if supersedesInHead || r.cap <= h.olderWatermarks[bucket] || g.rows.Tomb(n) {
			r.flagged = true
			setBit(g.flagged, n)
			flagged++
		}
		h.watermarks[bucket] = max(h.watermarks[bucket], r.cap)
		c.append(r, m)
		at++
		n++
	}
	return flagged
}
