package index

import (
	"sync"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// scanRows is how many rows a scan hands out at once, and scanLook how many it looks at
	// before it lets inserts through.
	scanRows = 4096
	scanLook = 1 << 16
	// scanBytes is how many payload bytes are handed out early.
	scanBytes = 8 << 20
	// minLookups is how many cells are looked up directly however few there are; more, where they
	// are at most half of all.
	minLookups = 256
	// keptBytes is how many payload bytes a scan may leave space for to the next one.
	keptBytes = 1 << 20
)

// headScan is one running scan of a head.
type headScan struct {
	head     *Head
	box      *record.Box
	anyMOID  record.Box // box without moids, for withoutMOIDs
	near     nearSets
	below    int64 // an acq
	bound    rowID // rows with acq >= below lie from here on, and those that came meanwhile
	keysOnly bool
	emit     func(b *record.Batch, flags []uint64) error
	batch    record.Batch
	flags    []uint64
	looked   int // entries since the lock was let go
	readings flaggedReadings
	caps     []int64 // of the flagged readings, ascending
	// someAtMostWatermark: some flagged row of a cell may supersede one older than the head.
	someAtMostWatermark bool
	latest              bool // the latest view is asked for
	// hidden is a bitmap by row ID: rows that are left out for it in order of arrival.
	hidden []uint64
	// supersededLater are the rows of the cell that only versions with acq >= below supersede, so
	// that the scan shows them; ascending.
	supersededLater []rowID
	leftOut         int // rows that the latest view leaves out
}

// headScans keep the memory of their batches.
var headScans = sync.Pool{New: func() any { return new(headScan) }}

// giveBack lets another scan use the memory, unless it is large.
func (s *headScan) giveBack() {
	s.batch.Reset()
	if cap(s.batch.Data) > keptBytes {
		s.batch.Data = nil
	}
	if cap(s.readings.slots) > keptReadings {
		s.readings = flaggedReadings{}
	}
	if cap(s.hidden) > keptReadings {
		s.hidden = nil
	}
	if cap(s.caps)+cap(s.supersededLater) > keptReadings {
		s.caps, s.supersededLater = nil, nil
	}
	*s = headScan{batch: s.batch, flags: s.flags[:0], readings: s.readings, hidden: s.hidden[:0],
		caps: s.caps[:0], supersededLater: s.supersededLater[:0]}
	headScans.Put(s)
}

// Scan hands out the rows that lie in a normalized box and have acq < belowAcqNs, with a bitmap of
// those that may supersede an older row. Rows inserted meanwhile may be missed. What emit gets is
// valid during the call.
//
// Cost: a few ns per row looked at; rows are found by device, or by acq where that is narrower.
func (h *Head) Scan(
	box *record.Box, belowAcqNs int64, keysOnly bool,
	emit func(b *record.Batch, flags []uint64) error,
) error {
	h.fillCells()
	s := headScans.Get().(*headScan)
	defer s.giveBack()
	s.head, s.box, s.below, s.keysOnly, s.emit = h, box, belowAcqNs, keysOnly, emit
	return s.run()
}

// ScanLatest is Scan for a box without acqs, less tombstones and rows that have a newer version
// with acq < belowAcqNs, all of which FindSuperseded has found. It returns how many it left out.
func (h *Head) ScanLatest(
	box *record.Box, belowAcqNs int64, keysOnly bool,
	emit func(b *record.Batch, flags []uint64) error,
) (leftOut int, err error) {
	h.fillCells()
	s := headScans.Get().(*headScan)
	defer s.giveBack()
	s.head, s.box, s.below, s.keysOnly, s.emit = h, box, belowAcqNs, keysOnly, emit
	s.latest = true
	err = s.run()
	return s.leftOut, err
}

func (s *headScan) run() error {
	if lo, hi, ok := s.appendedRange(); ok {
		if s.latest {
			s.hideByArrival(s.cellIDs())
		}
		return s.byArrival(lo, hi)
	}
	s.head.rlock()
	s.bound = s.head.rows.bound(s.below)
	s.head.mu.RUnlock()
	for _, id := range s.cellIDs() {
		if err := s.cell(id); err != nil {
			return err
		}
	}
	return s.flush()
}

// cellIDs returns the cells that the box can meet.
func (s *headScan) cellIDs() []uint32 {
	ids, ok := s.lookUpCells()
	if !ok {
		ids = s.matchingCells()
	}
	return ids
}

// appendedRange returns the part of the rows in order of arrival that the box allows, when it is
// small or the box asks for nothing else.
func (s *headScan) appendedRange() (lo, hi int, ok bool) {
	s.head.rlock()
	defer s.head.mu.RUnlock()
	rows := &s.head.rows
	hi = rows.below(s.below)
	if set := s.box[record.Acq]; len(set) > 0 {
		lo, hi = rows.below(set[0].From), rows.below(min(set[len(set)-1].To, s.below))
	}
	box := s.withoutMOIDs(hi)
	if hi-lo >= rows.len()/8 && hi > lo && !takesAll(box) {
		return lo, hi, false
	}
	s.box = box
	return lo, hi, true
}

// withoutMOIDs returns the box, as one of all moids if its own leave out none of the rows before
// one, which are in cells unless they came meanwhile: a box of all but reserved moids costs what
// one of all does.
func (s *headScan) withoutMOIDs(before int) *record.Box {
	set := s.box[record.MOID]
	if len(set) == 0 || before > s.head.rowsInCells ||
		!set.Covers(int64(s.head.leastMOID), record.MOID.Max()-1) {
		return s.box
	}
	s.anyMOID = *s.box
	s.anyMOID[record.MOID] = nil
	return &s.anyMOID
}

// takesAll reports whether a box asks for nothing but one range of acq.
func takesAll(box *record.Box) bool {
	return len(box[record.Acq]) <= 1 && len(box[record.CID])+len(box[record.MID])+
		len(box[record.MOID])+len(box[record.Cap]) == 0
}

func (s *headScan) byArrival(lo, hi int) error {
	for lo < hi {
		to := min(hi, lo+scanRows)
		s.head.rlock()
		for n := 1; takesAll(s.box) && !s.keysOnly && n > 0 && lo < to; lo += n {
			n = s.addRun(lo, to)
		}
		for ; lo < to && len(s.batch.Data) < scanBytes; lo++ {
			row := s.head.rows.nth(lo)
			p, i := s.head.rows.row(row)
			key := p.rows.Key(i)
			switch {
			case !s.box.Contains(key):
			case s.hides(row):
				s.leftOut++
			default:
				s.add(p, i, key, hasBit(p.flagged, i))
			}
		}
		s.head.mu.RUnlock()
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// lookUpCells returns the cells of the devices that the box names, when these are few, or cells are
// more. None is there twice: what the box names of one follows each other.
func (s *headScan) lookUpCells() ([]uint32, bool) {
	s.head.rlock()
	defer s.head.mu.RUnlock()
	count, most := 1, max(minLookups, len(s.head.list)/2)
	for _, d := range []record.Dim{record.CID, record.MOID, record.MID} {
		values := 0
		for _, r := range s.box[d] {
			span := uint64(r.To) - uint64(r.From)
			if d == record.MID {
				span = uint64((r.To-1)>>cellShift) - uint64(r.From>>cellShift) + 1
			}
			if span > uint64(most) {
				return nil, false
			}
			values += int(span)
		}
		count *= values
		if values == 0 || count > most {
			return nil, false
		}
	}
	var ids []uint32
	s.eachKey(func(key cellKey) {
		id, ok := s.head.find(key)
		if ok && (len(ids) == 0 || ids[len(ids)-1] != id) {
			ids = append(ids, id)
		}
	})
	return ids, true
}

func (s *headScan) eachKey(visit func(cellKey)) {
	for _, cids := range s.box[record.CID] {
		for cid := cids.From; cid < cids.To; cid++ {
			for _, moids := range s.box[record.MOID] {
				for moid := moids.From; moid < moids.To; moid++ {
					for _, mids := range s.box[record.MID] {
						last := (mids.To - 1) >> cellShift
						for devices := mids.From >> cellShift; devices <= last; devices++ {
							visit(cellKey{int32(cid), int32(moid), devices})
						}
					}
				}
			}
		}
	}
}

// matchingCells returns the cells whose tenant, quantity, devices and caps the box allows.
func (s *headScan) matchingCells() []uint32 {
	s.head.rlock()
	defer s.head.mu.RUnlock()
	var ids []uint32
	for id, c := range s.head.list {
		if s.meets(c) {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}

// meets reports whether the box allows tenant, quantity, some device and some cap of a cell.
func (s *headScan) meets(c *cell) bool {
	lowest := c.key.deviceRange << cellShift
	if !s.box[record.CID].Contains(int64(c.key.cid)) ||
		!s.box[record.MOID].Contains(int64(c.key.moid)) ||
		!s.box[record.MID].Intersects(lowest, lowest+1<<cellShift-1) {
		return false
	}
	unflagged, flagged := c.overlaps(s.box[record.Cap])
	return unflagged || flagged
}

// cell copies the matching rows of a cell. Rows are only ever appended, so that the lock may be
// let go between chunks.
func (s *headScan) cell(id uint32) error {
	s.head.rlock()
	unflagged, _ := s.head.list[id].overlaps(s.box[record.Cap])
	s.head.mu.RUnlock()
	for i, row, known := 0, 0, 0; ; {
		s.head.rlock()
		c := s.head.list[id]
		known = s.beginCell(c, known)
		chunks := len(c.chunks)
		if !unflagged {
			chunks = len(c.flaggedChunks)
		}
		for i < chunks && !s.full() && s.looked < scanLook {
			k := &c.chunks[i]
			if !unflagged {
				k = &c.chunks[c.flaggedChunks[i]]
			}
			if row = s.chunk(c, k, row); row == len(k.rows) {
				i, row = i+1, 0
			}
		}
		s.head.mu.RUnlock()
		if s.full() {
			if err := s.flush(); err != nil {
				return err
			}
		}
		s.looked = 0
		if i == chunks {
			return nil
		}
	}
}

// full reports whether the batch is to be handed out: another chunk may not fit.
func (s *headScan) full() bool {
	return s.batch.Len() >= scanRows-chunkRows || len(s.batch.Data) >= scanBytes
}

// chunk copies the matching rows of a chunk from a row on, until payloads fill the batch, and
// returns the row to go on with.
func (s *headScan) chunk(c *cell, k *chunk, from int) int {
	if !s.narrow(c, k) || k.first >= s.bound && s.acqOf(&k.rows[0]) >= s.below {
		return len(k.rows)
	}
	s.looked += len(k.rows) - from
	if next, few := s.fewRows(c, k, from); few {
		return next
	}
	for from < len(k.rows) && len(s.batch.Data) < scanBytes {
		if run := s.head.rows.uniformRun(k.rows[from:]); s.appendUniform(c, run) {
			from += len(run)
			continue
		}
		s.row(c, &k.rows[from])
		from++
	}
	return from
}

// fewOfChunk rows of a chunk are copied one by one.
const fewOfChunk = 8

// fewRows is chunk where the box allows few devices of the cell and few rows of the chunk, so that
// it does not pay to look whether they can be copied by columns.
func (s *headScan) fewRows(c *cell, k *chunk, from int) (next int, few bool) {
	allowed := uint64(0)
	for _, r := range s.near.mids {
		allowed += uint64(r.To) - uint64(r.From)
	}
	if allowed == 0 || allowed > deviceMask/2 {
		return from, false
	}
	var chosen [chunkRows]uint8
	n := s.choose(c, k.rows[from:], &chosen)
	if n > fewOfChunk {
		return from, false
	}
	for _, i := range chosen[:n] {
		if len(s.batch.Data) >= scanBytes {
			return from + int(i), true
		}
		s.row(c, &k.rows[from+int(i)])
	}
	return len(k.rows), true
}

// nearSets are the ranges of caps and devices of a box that a chunk can meet: of a box with
// hundreds of each, one or two.
type nearSets struct{ caps, mids record.RangeSet }

// narrow sets near for a chunk, and reports whether the box allows some caps and devices of it.
func (s *headScan) narrow(c *cell, k *chunk) bool {
	caps, mids, lowest := s.box[record.Cap], s.box[record.MID], c.key.deviceRange<<cellShift
	s.near = nearSets{caps.Near(k.capLo, k.capHi), mids.Near(lowest, lowest+deviceMask)}
	return len(s.near.caps) >= min(1, len(caps)) && len(s.near.mids) >= min(1, len(mids))
}

// row copies a row of a chunk for which near is set, and whose tenant and quantity the box allows,
// if it lies in the box.
func (s *headScan) row(c *cell, r *entry) {
	if !s.near.caps.Contains(r.cap) || !s.near.mids.Contains(c.mid(r)) {
		return
	}
	if s.hidesInCell(r) {
		s.leftOut++
		return
	}
	p, i := s.head.rows.row(r.at)
	// The cell knows most of the key, and columns of rows that lie apart are misses of the cache.
	key := record.Key{CID: c.key.cid, MID: c.mid(r), MOID: c.key.moid, CapNs: r.cap,
		AcqNs: p.rows.AcqNs[i]}
	if s.acqIn(key.AcqNs) {
		s.add(p, i, key, r.flagged)
	}
}

// addRun copies rows from the lo-th that came on, as many as lie together, and returns how many it
// has done with: a row that is left out is one.
func (s *headScan) addRun(lo, to int) int {
	first := s.head.rows.nth(lo)
	p, from := s.head.rows.row(first)
	n, bytes := min(to-lo, p.rows.Len()-from), len(s.batch.Data)
	if len(s.hidden) > 0 {
		if n = s.shownRun(first, n); n == 0 {
			s.leftOut++
			return 1
		}
	}
	for i := range n {
		if bytes += len(p.rows.RawPayload(from + i)); bytes > scanBytes {
			n = i
			break
		}
	}
	at := s.batch.Len()
	s.batch.AppendRows(&p.rows, from, from+n)
	for len(s.flags) < (at+n+63)/64 {
		s.flags = append(s.flags, 0)
	}
	for i := range n {
		if hasBit(p.flagged, from+i) {
			setBit(s.flags, at+i)
		}
	}
	return n
}

// add copies a row, whose key is given.
func (s *headScan) add(p *rowGroup, row int, key record.Key, flagged bool) {
	i := s.batch.Len()
	if i&63 == 0 {
		s.flags = append(s.flags, 0)
	}
	if flagged {
		setBit(s.flags, i)
	}
	if p.rows.Tomb(row) {
		s.batch.AppendStampedTomb(key)
		return
	}
	var payload []byte
	if !s.keysOnly {
		payload = p.rows.RawPayload(row)
	}
	s.batch.AppendStamped(key, payload)
}

func (s *headScan) flush() error {
	if s.batch.Len() == 0 {
		return nil
	}
	err := s.emit(&s.batch, s.flags)
	s.batch.Reset()
	s.flags = s.flags[:0]
	return err
}
