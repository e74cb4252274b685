package index

import (
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// minNewFlagged is how many rows must have been flagged since flags were last cleared, so that it
// pays to look at all again: also a part of those that stayed.
const (
	minNewFlagged  = 64
	newFlaggedPart = 8
	// clearChunks is how many chunks are cleared before inserts are let through.
	clearChunks = 256
)

// flaggedChunk is a chunk whose rows supersede no other row of the head.
type flaggedChunk struct {
	cell, chunk uint32
	from, to    int // numbers of the series of its rows
}

// HasNewFlags reports whether enough rows were flagged since ClearFalse for it to pay.
func (h *Head) HasNewFlags() bool {
	n, kept := h.Flagged(), int(h.flaggedKept.Load())
	return n-kept >= max(minNewFlagged, kept/newFlaggedPart)
}

// ClearFalse clears flags of rows that supersede no other: those of which lift, which raises the
// caps of series to the greatest ones that older heads and segments have of them, finds no cap that
// is not below theirs. Rows that were flagged because their bucket's watermark is that of another
// series are most of what is loaded device by device. It works while rows are inserted; some flags
// may stay.
//
// Cost: about 30 ns for each flagged row that came since the last call, and that of comparing them
// with the rows of their cells; a call at the same time as another one does nothing.
func (h *Head) ClearFalse(lift func(series []SeriesCap)) {
	if !h.clearing.TryLock() {
		return
	}
	defer h.clearing.Unlock()
	if h.flagsFrozen {
		return
	}
	h.fillCells()
	var set SeriesSet
	chunks, numbers, rows := h.onlyOlder(&set)
	if len(chunks) > 0 {
		lift(set.List())
		h.clear(chunks, numbers, set.List())
	}
	h.clearedRows = rows
	h.flaggedKept.Store(h.flagged.Load())
}

// FreezeFlags ends the clearing of flags: ClearFalse does nothing from now on. So all reads of the
// head see the same flags.
func (h *Head) FreezeFlags() {
	h.clearing.Lock()
	defer h.clearing.Unlock()
	h.flagsFrozen = true
}

// onlyOlder returns the flagged chunks, of those that got rows since it was called last, whose rows
// supersede no row of the head, the numbers in the set of the series of their rows, and how many
// rows, the first ones, it has looked at all of: what supersedes one does so for ever.
func (h *Head) onlyOlder(
	set *SeriesSet,
) (chunks []flaggedChunk, numbers []uint32, rows int) {
	s := headScans.Get().(*headScan)
	defer s.giveBack()
	s.head, s.box, s.below, s.bound = h, &record.Box{}, math.MaxInt64, math.MaxUint32
	h.rlock()
	from, below, count := rowID(0), h.endOfCells(), len(h.list)
	if h.clearedRows > 0 {
		from = h.rows.nth(h.clearedRows)
	}
	rows = h.rowsInCells
	keys := h.flaggedKeys(nil, h.clearedRows, count)
	h.mu.RUnlock()
	var ids []uint32
	if len(keys) > count { // it is less to look at each cell
		ids = s.matchingCells()
	} else {
		ids, _ = s.cellsOf(keys)
	}
	for _, id := range ids {
		if s.compare(id, from) {
			chunks, numbers = s.onlyOlder(id, from, below, set, chunks, numbers)
		}
	}
	return chunks, numbers, rows
}

func (s *headScan) onlyOlder(
	id uint32, from, below rowID, set *SeriesSet, chunks []flaggedChunk, numbers []uint32,
) ([]flaggedChunk, []uint32) {
	s.head.rlock()
	defer s.head.mu.RUnlock()
	c := s.head.list[id]
next:
	for _, i := range c.flaggedChunks[c.flaggedFrom(from):] {
		k, first := &c.chunks[i], len(numbers)
		if !k.flagged() || k.last >= below { // compare may not have met what came since
			continue
		}
		for n := range k.rows {
			r := &k.rows[n]
			g, at := s.head.rows.row(r.at)
			if g.rows.Tomb(at) || hasBit(g.supersedesInHead, at) && s.readings.again(r) {
				numbers = numbers[:first]
				continue next
			}
			numbers = append(numbers, set.Add(Series{CID: c.key.cid, MOID: c.key.moid,
				MID: c.mid(r)}, math.MinInt64))
		}
		chunks = append(chunks, flaggedChunk{id, i, first, len(numbers)})
	}
	return chunks, numbers
}

// clear clears the flags of chunks to which nothing was added since, and whose caps are above those
// of their series.
func (h *Head) clear(chunks []flaggedChunk, numbers []uint32, older []SeriesCap) {
	for len(chunks) > 0 {
		some := chunks[:min(len(chunks), clearChunks)]
		chunks = chunks[len(some):]
		h.mu.Lock()
		if h.gone {
			h.mu.Unlock()
			return
		}
		cleared := 0
		for _, x := range some {
			cleared += h.clearChunk(h.list[x.cell], x.chunk, numbers[x.from:x.to], older)
		}
		h.flagged.Add(-int64(cleared))
		h.mu.Unlock()
	}
}

func (h *Head) clearChunk(c *cell, chunk uint32, numbers []uint32, older []SeriesCap) int {
	rows := c.chunks[chunk].rows
	if len(rows) != len(numbers) {
		return 0
	}
	for i := range rows {
		if rows[i].cap <= older[numbers[i]].MaxCapNs {
			return 0
		}
	}
	for i := range rows {
		rows[i].flagged = false
		g, at := h.rows.row(rows[i].at)
		g.flagged[at>>6] &^= 1 << (at & 63)
	}
	c.flagged -= uint32(len(rows))
	return len(rows)
}

// RaiseCaps raises the caps of series to the greatest ones that the head has of them, or of their
// devices.
//
// Cost: about 50 ns a series.
func (h *Head) RaiseCaps(series []SeriesCap) {
	h.fillCells()
	h.rlock()
	defer h.mu.RUnlock()
	for i := range series {
		s := &series[i]
		id, ok := h.find(cellKey{s.CID, s.MOID, s.MID >> cellShift})
		if !ok {
			continue
		}
		if capNs, ok := h.list[id].maxCapOf(uint16(s.MID & deviceMask)); ok {
			s.MaxCapNs = max(s.MaxCapNs, capNs)
		}
	}
}

// maxCapOf returns the greatest cap of a device, if there is one.
func (c *cell) maxCapOf(device uint16) (capNs int64, ok bool) {
	if c.maxCaps != nil {
		b := c.maxCaps.of64[device>>6]
		if b == nil || b.present>>(device&63)&1 == 0 {
			return 0, false
		}
		return b.caps[device&63], true
	}
	capNs = math.MinInt64
	for i := range c.chunks {
		for k := range c.chunks[i].rows {
			if r := &c.chunks[i].rows[k]; r.device == device {
				capNs, ok = max(capNs, r.cap), true
			}
		}
	}
	return capNs, ok
}
