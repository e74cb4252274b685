package index

import (
	"slices"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// scanRows is how many rows a scan hands out at once, and scanLook how many it looks at
	// before it lets inserts through.
	scanRows = 4096
	scanLook = 1 << 16
	// scanBytes is how many payload bytes are handed out early.
	scanBytes = 8 << 20
	// maxLookups is how many cells are looked up directly before walking all is cheaper.
	maxLookups = 256
)

// headScan is one running scan of a head.
type headScan struct {
	head     *Head
	box      *record.Box
	below    int64
	keysOnly bool
	emit     func(b *record.Batch, flags []uint64) error
	batch    record.Batch
	flags    []uint64
	looked   int
}

// Scan hands out the rows that lie in a normalised box and have acq < belowAcqNs, with a bitmap of
// those that may supersede an older row. Rows inserted meanwhile are seen when their acq is below
// belowAcqNs. What emit gets is valid during the call.
//
// Cost: a few ns per row looked at; rows are found by device, or by acq where that is narrower.
func (h *Head) Scan(
	box *record.Box, belowAcqNs int64, keysOnly bool,
	emit func(b *record.Batch, flags []uint64) error,
) error {
	s := &headScan{head: h, box: box, below: belowAcqNs, keysOnly: keysOnly, emit: emit}
	if lo, hi, ok := s.arrivals(); ok {
		return s.byArrival(lo, hi)
	}
	for _, id := range s.ids() {
		if err := s.cell(id); err != nil {
			return err
		}
	}
	return s.flush()
}

// ids returns the cells that the box can meet.
func (s *headScan) ids() []uint32 {
	ids, ok := s.lookups()
	if !ok {
		ids = s.matching()
	}
	return ids
}

// arrivals returns the part of the arrival list that the box allows, when it is small.
func (s *headScan) arrivals() (lo, hi int, ok bool) {
	set := s.box[record.Acq]
	if len(set) == 0 {
		return 0, 0, false
	}
	s.head.mu.RLock()
	defer s.head.mu.RUnlock()
	acqs := s.head.acqs
	from, to := set[0].From, min(set[len(set)-1].To, s.below)
	lo = sort.Search(len(acqs), func(i int) bool { return acqs[i] >= from })
	hi = sort.Search(len(acqs), func(i int) bool { return acqs[i] >= to })
	return lo, hi, hi-lo < len(acqs)/8 || hi == lo
}

func (s *headScan) byArrival(lo, hi int) error {
	for lo < hi {
		to := min(hi, lo+scanRows)
		s.head.mu.RLock()
		for ; lo < to && len(s.batch.Data) < scanBytes; lo++ {
			p := s.head.arrival[lo]
			c := s.head.list[p.cell]
			s.row(c, c.row(p.row))
		}
		s.head.mu.RUnlock()
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// lookups returns the cells of the devices that the box names, when they are few.
func (s *headScan) lookups() ([]uint32, bool) {
	count := 1
	for _, d := range []record.Dim{record.CID, record.MOID, record.MID} {
		values := 0
		for _, r := range s.box[d] {
			span := uint64(r.To) - uint64(r.From)
			if d == record.MID {
				span = uint64((r.To-1)>>cellShift) - uint64(r.From>>cellShift) + 1
			}
			if span > maxLookups {
				return nil, false
			}
			values += int(span)
		}
		count *= values
		if values == 0 || count > maxLookups {
			return nil, false
		}
	}
	var ids []uint32
	s.head.mu.RLock()
	defer s.head.mu.RUnlock()
	s.eachKey(func(key cellKey) {
		if id, ok := s.head.cells[key]; ok && !slices.Contains(ids, id) {
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
						for block := mids.From >> cellShift; block <= last; block++ {
							visit(cellKey{int32(cid), int32(moid), block})
						}
					}
				}
			}
		}
	}
}

// matching returns the cells whose tenant, quantity and devices the box allows.
func (s *headScan) matching() []uint32 {
	s.head.mu.RLock()
	defer s.head.mu.RUnlock()
	var ids []uint32
	for id, c := range s.head.list {
		lowest := c.key.block << cellShift
		if s.box[record.CID].Contains(int64(c.key.cid)) &&
			s.box[record.MOID].Contains(int64(c.key.moid)) &&
			s.box[record.MID].Meets(lowest, lowest+1<<cellShift-1) {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}

// cell copies the matching rows of a cell. Rows are only ever appended, so that the lock may be
// let go between chunks.
func (s *headScan) cell(id uint32) error {
	for i, row := 0, 0; ; {
		s.head.mu.RLock()
		c := s.head.list[id]
		for i < len(c.chunks) && !s.full() && s.looked < scanLook {
			k := &c.chunks[i]
			if row = s.chunk(c, k, row); row == len(k.rows) {
				i, row = i+1, 0
			}
		}
		done := i == len(c.chunks)
		s.head.mu.RUnlock()
		if s.full() {
			if err := s.flush(); err != nil {
				return err
			}
		}
		s.looked = 0
		if done {
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
	if k.rows[0].acq >= s.below || !s.box[record.Cap].Meets(k.capLo, k.capHi) {
		return len(k.rows)
	}
	s.looked += len(k.rows) - from
	for ; from < len(k.rows) && len(s.batch.Data) < scanBytes; from++ {
		s.row(c, &k.rows[from])
	}
	return from
}

// row copies a row that lies in the box.
func (s *headScan) row(c *cell, r *headRow) {
	box := s.box
	if r.acq >= s.below || !box[record.MID].Contains(r.mid) || !box[record.Cap].Contains(r.cap) ||
		!box[record.Acq].Contains(r.acq) || !box[record.CID].Contains(int64(c.key.cid)) ||
		!box[record.MOID].Contains(int64(c.key.moid)) {
		return
	}
	i := s.batch.Len()
	if i&63 == 0 {
		s.flags = append(s.flags, 0)
	}
	if r.flagged {
		s.flags[i>>6] |= 1 << (i & 63)
	}
	var payload []byte
	if !s.keysOnly {
		payload = s.head.payload(r)
	}
	s.batch.AppendStamped(record.Key{CID: c.key.cid, MID: r.mid, MOID: c.key.moid,
		CapNs: r.cap, AcqNs: r.acq}, payload)
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
