package index

import "github.com/pentad-db/pentad/sdk/record"

// Count returns how many rows lie in a normalized box and have acq < belowAcqNs. Rows inserted
// meanwhile are not counted.
//
// Cost: a few ns for 64 rows that lie inside the box together, and for each row at its edges.
func (h *Head) Count(box *record.Box, belowAcqNs int64) int {
	h.fillCells()
	return (&headScan{head: h, box: box, below: belowAcqNs}).countAll()
}

// CountLatest is Count for a box without acqs, less tombstones and rows that have a newer version
// with acq < belowAcqNs, all of which FindSuperseded has found.
//
// Cost: that of Count, and 1 to 20 ns for each superseded row of the cells.
func (h *Head) CountLatest(box *record.Box, belowAcqNs int64) int {
	h.fillCells()
	s := &headScan{head: h, box: box, below: belowAcqNs, latest: true}
	return s.countAll()
}

func (s *headScan) countAll() int {
	h := s.head
	from, to := s.rowIDs()
	count := 0
	for ids := s.cellIDs(); len(ids) > 0; {
		h.rlock()
		for looked := 0; len(ids) > 0 && looked < scanLook/chunkRows; ids = ids[1:] {
			n, chunks := s.countCell(h.list[ids[0]], from, to)
			count += n
			looked += chunks
		}
		h.mu.RUnlock()
	}
	return count
}

// rowIDs returns the row IDs [from, to) of all rows whose acq the box allows; with several ranges
// of acq also those of others.
func (s *headScan) rowIDs() (from, to rowID) {
	s.head.rlock()
	defer s.head.mu.RUnlock()
	rows, below := &s.head.rows, s.below
	if set := s.box[record.Acq]; len(set) > 0 {
		from, below = rows.bound(set[0].From), min(below, set[len(set)-1].To)
	}
	return from, rows.bound(below)
}

// countCell returns how many rows of a cell match, and at how many chunks it looked.
func (s *headScan) countCell(c *cell, from, to rowID) (count, chunks int) {
	if s.latest {
		count -= s.countSuperseded(c)
	}
	if unflagged, _ := c.overlaps(s.box[record.Cap]); unflagged {
		for i := range c.chunks {
			count += s.count(c, &c.chunks[i], from, to)
		}
		return count, len(c.chunks)
	}
	for _, i := range c.flaggedChunks {
		count += s.count(c, &c.chunks[i], from, to)
	}
	return count, len(c.flaggedChunks)
}

// count returns how many rows of a chunk match.
func (s *headScan) count(c *cell, k *chunk, from, to rowID) int {
	if k.first >= to || k.last < from || !s.narrow(c, k) {
		return 0
	}
	lowest := c.key.deviceRange << cellShift
	inTime := k.first >= from && k.last < to && len(s.box[record.Acq]) <= 1
	caps, mids := s.near.caps, s.near.mids
	allMIDs := mids.Covers(lowest, lowest+deviceMask)
	if inTime && allMIDs && caps.Covers(k.capLo, k.capHi) {
		return len(k.rows)
	}
	if inTime && len(caps) <= 1 && len(mids) <= 1 {
		return c.countRows(caps, mids, k.rows)
	}
	count := 0
	for i := range k.rows {
		r := &k.rows[i]
		if caps.Contains(r.cap) && mids.Contains(c.mid(r)) &&
			(inTime || r.at < to && s.acqIn(s.acqOf(r))) {
			count++
		}
	}
	return count
}

func (s *headScan) acqOf(r *entry) int64 {
	g, i := s.head.rows.row(r.at)
	return g.rows.AcqNs[i]
}

func (s *headScan) acqIn(acqNs int64) bool {
	return acqNs < s.below && s.box[record.Acq].Contains(acqNs)
}

// OldestAcq returns the acq of the first row, the greatest there is for none.
func (h *Head) OldestAcq() int64 {
	h.rlock()
	defer h.mu.RUnlock()
	if h.rows.len() == 0 {
		return record.Acq.Max()
	}
	return h.rows.groups[0].rows.AcqNs[0]
}

// CountBelow returns how many rows have an acq below an acq.
//
// Cost: two binary searches.
func (h *Head) CountBelow(acqNs int64) int {
	h.rlock()
	defer h.mu.RUnlock()
	return h.rows.below(acqNs)
}
