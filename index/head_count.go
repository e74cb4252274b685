package index

import "github.com/pentad-db/pentad/sdk/record"

// Count returns how many rows lie in a normalised box and have acq < belowAcqNs.
//
// Cost: a few ns for 64 rows that lie inside the box together, and for each row at its edges.
func (h *Head) Count(box *record.Box, belowAcqNs int64) int {
	s := &headScan{head: h, box: box, below: belowAcqNs}
	count := 0
	for _, id := range s.ids() {
		h.mu.RLock()
		c := h.list[id]
		for i := range c.chunks {
			count += s.count(c, &c.chunks[i])
		}
		h.mu.RUnlock()
	}
	return count
}

// count returns how many rows of a chunk match.
func (s *headScan) count(c *cell, k *chunk) int {
	if !s.box[record.Cap].Meets(k.capLo, k.capHi) {
		return 0
	}
	first, last := s.acqOf(&k.rows[0]), s.acqOf(&k.rows[len(k.rows)-1])
	lowest := c.key.block << cellShift
	if first >= s.below || !s.box[record.Acq].Meets(first, last) {
		return 0
	}
	inTime := last < s.below && s.box[record.Acq].Covers(first, last)
	if inTime && s.box[record.Cap].Covers(k.capLo, k.capHi) &&
		s.box[record.MID].Covers(lowest, lowest+deviceMask) {
		return len(k.rows)
	}
	count := 0
	for i := range k.rows {
		r := &k.rows[i]
		if s.box[record.Cap].Contains(r.cap) && s.box[record.MID].Contains(c.mid(r)) &&
			(inTime || s.acqIn(s.acqOf(r))) {
			count++
		}
	}
	return count
}

func (s *headScan) acqOf(r *entry) int64 {
	p, i := s.head.rows.row(r.at)
	return p.rows.AcqNs[i]
}

func (s *headScan) acqIn(acqNs int64) bool {
	return acqNs < s.below && s.box[record.Acq].Contains(acqNs)
}
