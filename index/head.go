package index

import (
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// cellShift: a cell holds the rows of a tenant, quantity and 256 neighbouring devices.
	cellShift  = 8
	deviceMask = 1<<cellShift - 1
	// chunkRows is how many rows share a cap zone.
	chunkRows = 64
	// arenaBytes is the size of a piece of the payload arena.
	arenaBytes = 1 << 20
	// tableRows: with more rows than this a cell keeps the newest cap of each device in a
	// table, with fewer it looks.
	tableRows = 32
	// rowMemory is what a row takes beside its payload: the row, its place in the arrival list,
	// its share of growth.
	rowMemory = 64
	// cellMemory is what a cell takes beside its rows: its place in map and list, and its first
	// chunk. With random device ids each row has a cell of its own, and this is most of it.
	cellMemory = 192
	// tableMemory is what the newest caps of a cell take.
	tableMemory = 8<<cellShift + 1<<cellShift/8
)

type cellKey struct {
	cid, moid int32
	block     int64 // mid >> cellShift
}

// headRow is a row of a cell. Its payload is arena[piece][offset : offset+size].
type headRow struct {
	mid, cap, acq       int64
	piece, offset, size uint32
	flagged             bool // may supersede an older row
	own                 bool // also for what the head itself holds
}

// chunk is a stretch of rows of a cell, in order of arrival.
type chunk struct {
	capLo, capHi int64
	flagged      int
	rows         []headRow
}

type cell struct {
	key    cellKey
	chunks []chunk
	rows   int
	newest *newestCaps // when there are many rows
}

// newestCaps are the greatest caps of the devices of a cell.
type newestCaps struct {
	caps [1 << cellShift]int64
	seen [1 << cellShift / 64]uint64 // a bit for each device that has rows
}

// raise reports whether the device has a row with this cap or a greater one, and notes the cap.
func (n *newestCaps) raise(mid, capNs int64) bool {
	i := mid & deviceMask
	word, bit := &n.seen[i>>6], uint64(1)<<(i&63)
	had := *word&bit != 0 && capNs <= n.caps[i]
	if !had {
		*word |= bit
		n.caps[i] = capNs
	}
	return had
}

// place is where a row of the arrival list lies.
type place struct {
	cell uint32
	row  uint32
}

// Head is the in-memory part of a shard: rows in the order of their arrival, and in cells by
// tenant, quantity and device. One goroutine inserts; any number may scan meanwhile.
type Head struct {
	before *Watermarks // of everything older than this head; immutable

	rowCount atomic.Int64
	flagged  atomic.Int64
	bytes    atomic.Int64

	// mu guards all below. Scans hold it for reading while they copy rows, never while they
	// hand them out.
	mu      sync.RWMutex
	cells   map[cellKey]uint32
	list    []*cell
	arrival []place
	acqs    []int64 // acq of the arrival list, ascending
	arena   [][]byte
	seen    *Watermarks
	tables  int // cells with a table of newest caps
}

// NewHead returns an empty head. before holds the watermarks of everything older; the head keeps it
// and does not change it.
func NewHead(before *Watermarks) *Head {
	return &Head{before: before, cells: map[cellKey]uint32{}, seen: NewWatermarks()}
}

// Rows returns the number of rows.
func (h *Head) Rows() int { return int(h.rowCount.Load()) }

// Flagged returns the number of rows that may supersede an older one.
func (h *Head) Flagged() int { return int(h.flagged.Load()) }

// Bytes returns about how much memory the rows take.
func (h *Head) Bytes() int64 { return h.bytes.Load() }

// Watermarks returns those of everything up to and with this head.
func (h *Head) Watermarks() *Watermarks {
	h.mu.RLock()
	defer h.mu.RUnlock()
	w := *h.before
	w.Raise(h.seen)
	return &w
}

// Insert adds stamped rows, in acq order and above all rows before. Payloads are copied.
//
// Cost: about 100 ns a row.
func (h *Head) Insert(b *record.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cells, tables, flagged := len(h.list), h.tables, int64(0)
	var last *cell
	var lastID uint32
	for i := range b.Len() {
		key := cellKey{b.CID[i], b.MOID[i], b.MID[i] >> cellShift}
		if last == nil || last.key != key {
			lastID = h.cell(key)
			last = h.list[lastID]
		}
		if last.newest == nil && last.rows >= tableRows {
			last.newest = last.tabulate()
			h.tables++
		}
		bucket := bucketOf(b.CID[i], b.MID[i], b.MOID[i])
		capNs := b.CapNs[i]
		row := headRow{mid: b.MID[i], cap: capNs, acq: b.AcqNs[i]}
		row.own = last.raise(row.mid, capNs)
		if row.flagged = row.own || capNs <= h.before[bucket]; row.flagged {
			flagged++
		}
		h.seen[bucket] = max(h.seen[bucket], capNs)
		row.piece, row.offset, row.size = h.store(b.Payload(i))
		h.arrival = append(h.arrival, place{lastID, uint32(last.rows)})
		h.acqs = append(h.acqs, row.acq)
		last.append(row)
	}
	h.rowCount.Add(int64(b.Len()))
	h.flagged.Add(flagged)
	h.bytes.Add(int64(len(b.Data)) + int64(b.Len())*rowMemory +
		int64(len(h.list)-cells)*cellMemory + int64(h.tables-tables)*tableMemory)
}

func (h *Head) cell(key cellKey) uint32 {
	id, ok := h.cells[key]
	if !ok {
		id = uint32(len(h.list))
		h.cells[key] = id
		h.list = append(h.list, &cell{key: key})
	}
	return id
}

// store copies a payload into the arena.
func (h *Head) store(payload []byte) (piece, offset, size uint32) {
	if len(payload) == 0 {
		return 0, 0, 0
	}
	last := len(h.arena) - 1
	if last < 0 || cap(h.arena[last])-len(h.arena[last]) < len(payload) {
		h.arena = append(h.arena, make([]byte, 0, max(arenaBytes, len(payload))))
		last++
	}
	offset = uint32(len(h.arena[last]))
	h.arena[last] = append(h.arena[last], payload...)
	return uint32(last), offset, uint32(len(payload))
}

func (h *Head) payload(r *headRow) []byte {
	if r.size == 0 {
		return nil
	}
	return h.arena[r.piece][r.offset : r.offset+r.size]
}

// raise reports whether the device has a row with this cap or a greater one, and notes the cap.
func (c *cell) raise(mid, capNs int64) bool {
	if c.newest != nil {
		return c.newest.raise(mid, capNs)
	}
	for i := range c.chunks {
		for k := range c.chunks[i].rows {
			if r := &c.chunks[i].rows[k]; r.mid == mid && r.cap >= capNs {
				return true
			}
		}
	}
	return false
}

// tabulate returns the newest caps of the rows so far.
func (c *cell) tabulate() *newestCaps {
	n := new(newestCaps)
	for i := range c.chunks {
		for k := range c.chunks[i].rows {
			n.raise(c.chunks[i].rows[k].mid, c.chunks[i].rows[k].cap)
		}
	}
	return n
}

func (c *cell) append(r headRow) {
	if n := len(c.chunks); n == 0 || len(c.chunks[n-1].rows) == chunkRows {
		c.chunks = append(c.chunks, chunk{capLo: r.cap, capHi: r.cap})
		if n > 0 { // the cell has shown that it fills chunks
			c.chunks[n].rows = make([]headRow, 0, chunkRows)
		}
	}
	last := &c.chunks[len(c.chunks)-1]
	last.capLo, last.capHi = min(last.capLo, r.cap), max(last.capHi, r.cap)
	if r.flagged {
		last.flagged++
	}
	last.rows = append(last.rows, r)
	c.rows++
}

func (c *cell) row(i uint32) *headRow { return &c.chunks[i/chunkRows].rows[i%chunkRows] }

// Freeze returns all rows in acq order and their flags as a bitmap by rank. Nothing may be inserted
// afterwards; scans go on.
func (h *Head) Freeze() (*record.Batch, []uint64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := len(h.arrival)
	b := &record.Batch{CID: make([]int32, 0, n), MID: make([]int64, 0, n),
		MOID: make([]int32, 0, n), CapNs: make([]int64, 0, n), AcqNs: make([]int64, 0, n)}
	flags := make([]uint64, (n+63)/64)
	for i, p := range h.arrival {
		c := h.list[p.cell]
		r := c.row(p.row)
		b.AppendStamped(record.Key{CID: c.key.cid, MID: r.mid, MOID: c.key.moid,
			CapNs: r.cap, AcqNs: r.acq}, h.payload(r))
		if r.flagged {
			flags[i>>6] |= 1 << (i & 63)
		}
	}
	return b, flags
}

// Doubtful returns the ranks of the rows of a frozen head that are flagged for one reason only: the
// watermark of their bucket, which other series share, is not below their cap.
func (h *Head) Doubtful() []uint32 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var ranks []uint32
	for i, p := range h.arrival {
		if r := h.list[p.cell].row(p.row); r.flagged && !r.own {
			ranks = append(ranks, uint32(i))
		}
	}
	return ranks
}
