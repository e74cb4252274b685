package index

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// HeadCell is a part of a head, for those who want the newest rows of each series: rows of a
// tenant, a quantity and neighbouring devices, in chunks in the order in which they were begun.
type HeadCell struct {
	ID     uint32
	Series []SeriesCap // those in the box, ascending; no row of theirs has a greater cap
	Chunks int         // how many it has
}

// HeadChunk says what caps rows of a chunk have.
type HeadChunk struct {
	Caps     Bound
	BeforeNs int64 // the greatest cap of all chunks before it
}

// HeadRow is a row of a cell, without its payload.
type HeadRow struct {
	Key     record.Key
	Flagged bool
	Tomb    bool
	Row     uint32 // its number in the cell
}

// Cells returns the cells that may hold rows of a normalized box, their series ascending from cell
// to cell.
func (h *Head) Cells(box *record.Box) []uint32 {
	h.fillCells()
	s := &headScan{head: h, box: box}
	ids := s.cellIDs()
	h.rlock()
	defer h.mu.RUnlock()
	slices.SortFunc(ids, func(a, b uint32) int {
		x, y := &h.list[a].key, &h.list[b].key
		return cmp.Or(cmp.Compare(x.cid, y.cid), cmp.Compare(x.moid, y.moid),
			cmp.Compare(x.deviceRange, y.deviceRange))
	})
	return ids
}

// Cell describes a cell, in the memory of to.
func (h *Head) Cell(id uint32, box *record.Box, to *HeadCell) {
	h.rlock()
	defer h.mu.RUnlock()
	c := h.list[id]
	to.ID, to.Series, to.Chunks = id, to.Series[:0], len(c.chunks)
	if c.maxCaps == nil {
		to.look(c, box)
		return
	}
	s := Series{CID: c.key.cid, MOID: c.key.moid}
	for i, b := range c.maxCaps.of64 {
		if b == nil {
			continue
		}
		for word := b.present; word != 0; word &= word - 1 {
			device := bits.TrailingZeros64(word)
			if s.MID = c.key.deviceRange<<cellShift + int64(i<<6+device); s.In(box) {
				to.Series = append(to.Series, SeriesCap{s, b.caps[device]})
			}
		}
	}
}

// look finds the series of a cell that has no table, and few rows.
func (to *HeadCell) look(c *cell, box *record.Box) {
	for i := range c.chunks {
		for k := range c.chunks[i].rows {
			r := &c.chunks[i].rows[k]
			s := Series{CID: c.key.cid, MOID: c.key.moid, MID: c.mid(r)}
			if s.In(box) {
				to.Series = append(to.Series, SeriesCap{s, r.cap})
			}
		}
	}
	slices.SortFunc(to.Series, func(a, b SeriesCap) int {
		return cmp.Or(cmp.Compare(a.MID, b.MID), cmp.Compare(b.MaxCapNs, a.MaxCapNs))
	})
	to.Series = slices.CompactFunc(to.Series, func(a, b SeriesCap) bool { return a.MID == b.MID })
}

// Chunks appends the chunks [from, to) of a cell, in the order in which they were begun.
func (h *Head) Chunks(id uint32, from, to int, dst []HeadChunk) []HeadChunk {
	h.rlock()
	defer h.mu.RUnlock()
	c := h.list[id]
	for i := from; i < to; i++ {
		k := &c.chunks[i]
		dst = append(dst, HeadChunk{Bound{k.capLo, k.capHi}, c.maxCapOfFirst(i)})
	}
	return dst
}

// ChunkRows appends the rows of a chunk of a cell that lie in the box and have acq < belowAcqNs.
func (h *Head) ChunkRows(
	id uint32, chunk int, box *record.Box, belowAcqNs int64, dst []HeadRow,
) []HeadRow {
	h.rlock()
	defer h.mu.RUnlock()
	c := h.list[id]
	for i := range c.chunks[chunk].rows {
		r := &c.chunks[chunk].rows[i]
		if !box[record.MID].Contains(c.mid(r)) || !box[record.Cap].Contains(r.cap) {
			continue
		}
		g, at := h.rows.row(r.at)
		if k := g.rows.Key(at); k.AcqNs < belowAcqNs && box[record.Acq].Contains(k.AcqNs) {
			dst = append(dst, HeadRow{Key: k, Flagged: r.flagged, Tomb: g.rows.Tomb(at),
				Row: uint32(chunk*chunkRows + i)})
		}
	}
	return dst
}

// Gather appends rows, each named by its cell << 32 and its number there, to a batch: as many as
// have limitBytes of payloads together and at least one. It returns how many.
func (h *Head) Gather(rows []uint64, keysOnly bool, limitBytes int, dst *record.Batch) int {
	h.rlock()
	defer h.mu.RUnlock()
	for n, at := range rows {
		g, i := h.rows.row(h.list[at>>32].row(uint32(at)).at)
		var payload []byte
		if !keysOnly {
			payload = g.rows.Payload(i)
		}
		if n > 0 && len(dst.Data)+len(payload) > limitBytes {
			return n
		}
		dst.AppendStamped(g.rows.Key(i), payload)
	}
	return len(rows)
}
