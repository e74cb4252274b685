package index

import (
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// shortBytes is how long payloads are at most of which a chunk's are copied at once.
const shortBytes = 256

// uniformRun returns the first of the rows of a chunk: those in row groups without tombstones whose
// payloads have one length, so that appendUniform copies them by columns; else one row.
func (a *appendedRows) uniformRun(rows []entry) []entry {
	first, last := rows[0].at>>rowGroupShift, rows[len(rows)-1].at>>rowGroupShift
	p := &a.groups[first].rows
	if !even(p) {
		return rows[:1] // which is taken by itself
	}
	for i := first + 1; i <= last; i++ {
		q := &a.groups[i].rows
		if q.Stride == p.Stride && even(q) {
			continue
		}
		n := 1
		for rows[n].at>>rowGroupShift < i {
			n++
		}
		return rows[:n]
	}
	return rows
}

// even reports whether the payloads of all rows are of one length, and none is a tombstone.
func even(b *record.Batch) bool { return b.Offsets == nil && len(b.Tombs) == 0 }

// appendUniform copies the matching rows of a uniform run, column by column, and
// reports whether it could: they must have short payloads of one length, as those before them. Row
// by row takes three times as long.
func (s *headScan) appendUniform(c *cell, rows []entry) bool {
	b, stride := &s.batch, 0
	g, _ := s.head.rows.row(rows[0].at)
	if !s.keysOnly {
		stride = g.rows.Stride
	}
	if !even(&g.rows) || stride > shortBytes ||
		b.Len() > 0 && (b.Offsets != nil || b.Stride != stride) {
		return false
	}
	var chosen [chunkRows]uint8
	n := s.choose(c, rows, &chosen)
	if s.latest && c.superseded != nil {
		n = s.dropHidden(rows, chosen[:n])
	}
	if n == 0 {
		return true
	}
	from := b.Len()
	b.Stride, b.Offsets = stride, nil
	lowest := c.key.deviceRange << cellShift
	cids, mids := extend(&b.CID, n), extend(&b.MID, n)
	moids, caps := extend(&b.MOID, n), extend(&b.CapNs, n)
	for i, row := range chosen[:n] {
		r := &rows[row]
		cids[i], mids[i] = c.key.cid, lowest|int64(r.device)
		moids[i], caps[i] = c.key.moid, r.cap
	}
	s.copyRest(rows, chosen[:n], stride)
	for len(s.flags) < (from+n+63)/64 {
		s.flags = append(s.flags, 0)
	}
	if rows[0].flagged { // then all of them are
		for i := range n {
			setBit(s.flags, from+i)
		}
	}
	return true
}

// copyRest copies what the cell does not know of chosen rows. Devices that send in turn leave runs
// of neighbours.
func (s *headScan) copyRest(rows []entry, chosen []uint8, stride int) {
	acqs, data := extend(&s.batch.AcqNs, len(chosen)), extend(&s.batch.Data, len(chosen)*stride)
	for i := 0; i < len(chosen); {
		at, n := rows[chosen[i]].at, 1
		g, row := s.head.rows.row(at)
		for i+n < len(chosen) && rows[chosen[i+n]].at == at+rowID(n) && row+n < rowGroupRows {
			n++
		}
		copy(acqs[i:i+n], g.rows.AcqNs[row:])
		copy(data[i*stride:(i+n)*stride], g.rows.Data[row*stride:])
		i += n
	}
}

// choose lists those of some rows of a chunk, for which near is set, that lie in the box.
func (s *headScan) choose(c *cell, rows []entry, to *[chunkRows]uint8) (n int) {
	caps, mids := s.near.caps, s.near.mids
	acqsMatch := len(s.box[record.Acq]) == 0 && rows[len(rows)-1].at < s.bound
	if len(caps) <= 1 && len(mids) <= 1 && acqsMatch { // most boxes, and most chunks
		return c.filterRows(caps, mids, rows, to)
	}
	for i := range rows {
		r := &rows[i]
		if !caps.Contains(r.cap) || !mids.Contains(c.mid(r)) ||
			!acqsMatch && !s.acqIn(s.acqOf(r)) {
			continue
		}
		to[n] = uint8(i)
		n++
	}
	return n
}

// filterRows lists the rows whose caps and devices lie in sets of at most one range. It has no
// branch that depends on a row, which would be guessed wrong.
func (c *cell) filterRows(
	caps, mids record.RangeSet, rows []entry, to *[chunkRows]uint8,
) (n int) {
	in, some := c.rangesIn(caps, mids)
	if !some {
		return 0
	}
	for i := range rows {
		to[n&(chunkRows-1)] = uint8(i)
		n += in.contains(&rows[i])
	}
	return n
}

// countRows returns how many rows filterRows would list.
func (c *cell) countRows(caps, mids record.RangeSet, rows []entry) (n int) {
	in, some := c.rangesIn(caps, mids)
	switch {
	case !some:
		return 0
	case in.devices == deviceMask:
		for i := range rows {
			n += in.containsCap(&rows[i])
		}
	default:
		for i := range rows {
			n += in.contains(&rows[i])
		}
	}
	return n
}

// ranges are a range of caps and one of the devices of a cell: where they begin, and how much
// further they reach.
type ranges struct {
	capFrom, caps   uint64
	device, devices uint16
}

// rangesIn returns the part of sets of at most one range that lies in the cell, false where no
// device does.
func (c *cell) rangesIn(caps, mids record.RangeSet) (in ranges, some bool) {
	capFrom, capLast := int64(math.MinInt64), int64(math.MaxInt64)
	if len(caps) == 1 {
		capFrom, capLast = caps[0].From, caps[0].To-1
	}
	first, last := int64(0), int64(deviceMask)
	if len(mids) == 1 {
		lowest := c.key.deviceRange << cellShift
		if mids[0].To <= lowest || mids[0].From > lowest+deviceMask {
			return in, false
		}
		first = max(mids[0].From, lowest) - lowest
		last = min(mids[0].To-1, lowest+deviceMask) - lowest
	}
	return ranges{capFrom: uint64(capFrom), caps: uint64(capLast) - uint64(capFrom),
		device: uint16(first), devices: uint16(last - first)}, true
}

// containsCap returns 1 for a row whose cap is in the range, 0 for others.
func (in *ranges) containsCap(r *entry) (one int) {
	if uint64(r.cap)-in.capFrom <= in.caps {
		one = 1
	}
	return one
}

// contains is containsCap for a row whose device is in its range, too.
func (in *ranges) contains(r *entry) int {
	one := in.containsCap(r)
	if r.device-in.device > in.devices {
		one = 0
	}
	return one
}

// extend makes a column longer and returns what was added, to be filled.
func extend[T any](column *[]T, n int) []T {
	from := len(*column)
	*column = slices.Grow(*column, n)[:from+n]
	return (*column)[from:]
}
