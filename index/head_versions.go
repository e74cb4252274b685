package index

import (
	"math"
	"math/bits"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxReadings is how many readings of a cell are compared, in 4 MiB of memory. Late rows of
	// others count as versions.
	maxReadings = 1 << 19
	// keptReadings is how many slots a scan may leave to the next one.
	keptReadings = 1 << 18
)

// ScanVersions hands out the keys of the flagged rows of a normalized box with acq < belowAcqNs
// that may supersede another one: one of the head, inside the box or not, that is of the same
// reading, or an older one, as a watermark is not below the cap. Most rows that came after a
// later cap of their device supersede nothing, and are left out; where few rows came, all flagged
// ones are handed out.
// What emit gets is valid during the call.
//
// Cost: about 10 ns for each row of a cell that has flagged rows.
func (h *Head) ScanVersions(
	box *record.Box, belowAcqNs int64, emit func(b *record.Batch) error,
) error {
	if h.Flagged() == 0 {
		return nil
	}
	s := headScans.Get().(*headScan)
	defer s.giveBack()
	s.head, s.box, s.below, s.keysOnly = h, box, belowAcqNs, true
	s.emit = func(b *record.Batch, flags []uint64) error {
		keep := 0
		for i := range b.Len() {
			if !hasBit(flags, i) {
				continue
			}
			if keep != i {
				b.Move(keep, i)
			}
			keep++
		}
		if b.Truncate(keep); keep == 0 {
			return nil
		}
		return emit(b)
	}
	if lo, hi, _ := s.appendedRange(); hi-lo < h.Rows()/8 {
		return s.byArrival(lo, hi)
	}
	s.head.rlock()
	s.bound = s.head.rows.bound(belowAcqNs)
	s.head.mu.RUnlock()
	for _, id := range s.cellIDs() {
		if err := s.versions(id); err != nil {
			return err
		}
	}
	return s.flush()
}

// ScanSuperseding hands out the keys of the flagged rows of a normalized box with acq < belowAcqNs
// that may supersede a row from before the head: a watermark is not below their caps. What emit
// gets is valid during the call.
//
// Cost: a look at 64 rows at a time from the first acq of the box on, or where that is less at each
// cell; and a comparison of each flagged row.
func (h *Head) ScanSuperseding(
	box *record.Box, belowAcqNs int64, emit func(b *record.Batch) error,
) error {
	if h.Flagged() == 0 {
		return nil
	}
	s := headScans.Get().(*headScan)
	defer s.giveBack()
	s.head, s.box, s.below, s.bound, s.keysOnly = h, box, belowAcqNs, math.MaxUint32, true
	s.emit = func(b *record.Batch, _ []uint64) error { return emit(b) }
	if lo, hi, ok := s.appendedRange(); ok {
		return s.supersedingByArrival(lo, hi)
	}
	for _, id := range s.cellIDs() {
		if err := s.eachRow(id, (*chunk).flagged, func(c *cell, r *entry) {
			if s.atMostWatermark(c, r) {
				s.row(c, r)
			}
		}); err != nil {
			return err
		}
	}
	return s.flush()
}

// supersedingByArrival is ScanSuperseding for the rows [lo, hi) in order of arrival.
func (s *headScan) supersedingByArrival(lo, hi int) error {
	for lo < hi {
		s.head.rlock()
		at := s.head.rows.nth(lo)
		g, from := s.head.rows.row(at)
		to := min(g.rows.Len(), from+hi-lo)
		for i := from; i < to && !s.full(); i, lo = i+1, lo+1 {
			if word := g.flagged[i>>6] >> (i & 63); word == 0 {
				skip := min(to-i, 64-i&63) - 1
				i, lo = i+skip, lo+skip
				continue
			} else if word&1 == 0 {
				continue
			}
			key := g.rows.Key(i)
			atMost := key.CapNs <= s.head.olderWatermarks[bucketOf(key.CID, key.MID, key.MOID)]
			if atMost && s.box.Contains(key) {
				s.add(g, i, key, true)
			}
		}
		s.head.mu.RUnlock()
		if s.full() || lo >= hi {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return s.flush()
}

// UnconfirmedFlags returns the ranks, in no order, of the rows of an immutable head that are
// flagged, no tombstones, and supersede none of its rows. They may supersede rows outside the head:
// their buckets' watermarks, which other series share, are not below their caps, or later caps of
// their devices came before.
//
// Cost: about 10 ns for each row of a cell that has flagged rows.
func (h *Head) UnconfirmedFlags() (ranks []uint32) {
	if h.Flagged() == 0 {
		return nil
	}
	s := headScans.Get().(*headScan)
	defer s.giveBack()
	s.head, s.box, s.below, s.bound = h, &record.Box{}, math.MaxInt64, math.MaxUint32
	for id := range uint32(len(h.list)) {
		if !s.compare(id, 0) {
			continue
		}
		_ = s.eachRow(id, (*chunk).flagged, func(_ *cell, r *entry) {
			g, i := h.rows.row(r.at)
			if !g.rows.Tomb(i) && (!hasBit(g.supersedesInHead, i) || !s.readings.again(r)) {
				ranks = append(ranks, uint32(g.first+i))
			}
		})
	}
	return ranks
}

// versions hands out the rows of a cell that may supersede another one.
func (s *headScan) versions(id uint32) error {
	if !s.compare(id, 0) || !s.readings.some && !s.someAtMostWatermark {
		return nil
	}
	return s.eachRow(id, (*chunk).flagged, func(c *cell, r *entry) {
		if s.atMostWatermark(c, r) || s.readings.again(r) {
			s.row(c, r)
		}
	})
}

// compare counts the rows of the readings of a cell that have flagged ones in chunks with rows from
// a row ID on, and reports whether there are some.
func (s *headScan) compare(id uint32, from rowID) bool {
	s.head.rlock()
	c := s.head.list[id]
	_, some := c.overlaps(s.box[record.Cap])
	first := c.flaggedFrom(from)
	some = some && c.flagged > 0 && first < len(c.flaggedChunks)
	most := min(int(c.flagged), (len(c.flaggedChunks)-first)*chunkRows)
	s.readings.begin(most, s.head.cells.rangeFactor, s.head.cells.pairFactor)
	s.head.mu.RUnlock()
	s.someAtMostWatermark, s.caps = false, s.caps[:0]
	if !some {
		return false
	}
	asked := func(k *chunk) bool { return k.flagged() && k.last >= from }
	_ = s.eachRow(id, asked, func(c *cell, r *entry) {
		s.readings.add(r)
		s.caps = append(s.caps, r.cap)
		s.someAtMostWatermark = s.someAtMostWatermark || s.atMostWatermark(c, r)
	})
	slices.Sort(s.caps)
	_ = s.eachRow(id, func(k *chunk) bool { return !asked(k) && s.hasCapIn(k.capLo, k.capHi) },
		func(_ *cell, r *entry) { s.readings.meet(r) })
	return true
}

// hasCapIn reports whether one of the caps that are looked for lies in a zone.
func (s *headScan) hasCapIn(lo, hi int64) bool {
	i, _ := slices.BinarySearch(s.caps, lo)
	return i < len(s.caps) && s.caps[i] <= hi
}

// atMostWatermark reports whether the cap of a row is not above the watermark of what is older.
func (s *headScan) atMostWatermark(c *cell, r *entry) bool {
	return r.cap <= s.head.olderWatermarks[bucketOf(c.key.cid, c.mid(r), c.key.moid)]
}

// eachRow calls visit with the rows of a cell in the chunks that are asked for and that the box and
// the horizon allow, and hands out the batch where visit fills it.
func (s *headScan) eachRow(
	id uint32, asked func(k *chunk) bool, visit func(c *cell, r *entry),
) error {
	for i, done := 0, false; !done; {
		s.head.rlock()
		c := s.head.list[id]
		for looked := 0; looked < scanLook && !s.full(); i++ {
			if done = i == len(c.chunks); done {
				break
			}
			k := &c.chunks[i]
			if !asked(k) || !s.narrow(c, k) ||
				k.first >= s.bound && s.acqOf(&k.rows[0]) >= s.below {
				looked++
				continue
			}
			for n := range k.rows {
				visit(c, &k.rows[n])
			}
			looked += len(k.rows)
		}
		s.head.mu.RUnlock()
		if s.full() {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flaggedReadings tells which readings of a cell that have flagged rows have other rows, too: a
// table of hashes with open addressing, of which at most half is taken. Two readings of one hash,
// which are very rare, count as one.
type flaggedReadings struct {
	slots       []uint32 // a hash that is not 0, and the highest bit once there is another row
	left, shift int
	some        bool   // readings have other rows, or flagged ones were not noted
	cap, device uint64 // multipliers, secret as those of a cellTable
}

// another is set in the slot of a reading that has several rows.
const another = 1 << 31

// begin empties the table and makes space for a number of readings, up to maxReadings.
func (t *flaggedReadings) begin(readings int, multiplier, other uint64) {
	t.left, t.some = min(readings, maxReadings), false
	size := 1 << bits.Len(uint(2*t.left))
	t.slots = slices.Grow(t.slots[:0], size)[:size]
	clear(t.slots)
	t.shift, t.cap, t.device = 64-bits.TrailingZeros(uint(size)), multiplier, other
}

// slot returns the slot of a reading, or the free one where it belongs, and its hash.
func (t *flaggedReadings) slot(r *entry) (slot *uint32, hash uint32) {
	h := uint64(r.cap)*t.cap + uint64(r.device)*t.device
	at := h >> t.shift
	hash = uint32((h^h>>29)*0xff51afd7ed558ccd>>33) | 1
	for {
		if slot = &t.slots[at]; *slot == 0 || *slot&^another == hash {
			return slot, hash
		}
		at = (at + 1) & uint64(len(t.slots)-1)
	}
}

// add notes a flagged row.
func (t *flaggedReadings) add(r *entry) {
	slot, hash := t.slot(r)
	switch {
	case *slot != 0:
		*slot |= another
		t.some = true
	case t.left > 0:
		*slot = hash
		t.left--
	default:
		t.some = true
	}
}

// meet notes a row that is not flagged.
func (t *flaggedReadings) meet(r *entry) {
	if slot, _ := t.slot(r); *slot != 0 {
		*slot |= another
		t.some = true
	}
}

// has reports whether a row may be of one of the readings.
func (t *flaggedReadings) has(r *entry) bool {
	slot, _ := t.slot(r)
	return *slot != 0 || t.left == 0
}

// again reports whether there may be another row of the reading of a flagged row.
func (t *flaggedReadings) again(r *entry) bool {
	slot, _ := t.slot(r)
	return *slot == 0 || *slot&another != 0
}
