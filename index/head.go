package index

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// rowMemory is what a row takes beside its payload: its columns, its entry in a cell, its
	// share of growth.
	rowMemory = 60
	// columnMemory is what the columns of a row take.
	columnMemory = 2*4 + 3*8
	// cellMemory is what a cell takes beside its rows: its place in map and list, and its first
	// chunk. With random device ids each row has a cell of its own, and this is most of it.
	cellMemory = 248
	// maxCapsMemory is what the table of the greatest caps of a cell takes, and capsOf64Memory
	// those of 64 neighbours in it.
	maxCapsMemory  = 1<<cellShift/8 + 16
	capsOf64Memory = 576
	// A cluster puts a few hundred rows at a time into each of many heads. What a row touches on
	// its way into its cell is not in the caches any more, unless rows of the same cells came just
	// before. So rows stay outside the cells until there are maxOutsideCells, or manyOfCell for
	// each cell come at once, or someone looks, who puts them into their cells.
	maxOutsideCells = 1 << 14
	manyOfCell      = 8
)

// Head is the in-memory part of a shard: rows in the order of their arrival, and in cells by
// tenant, quantity and device. One goroutine inserts; any number may scan meanwhile.
type Head struct {
	olderWatermarks *Watermarks // of everything older than this head; immutable

	users        atomic.Int64
	rowCount     atomic.Int64
	outsideCells atomic.Int64 // of these, rows that are in no cell yet: readers call fillCells
	flagged      atomic.Int64
	tombs        atomic.Int64
	// flaggedKept is how many rows were flagged when ClearFalse had cleared what it could.
	flaggedKept   atomic.Int64
	bytes         atomic.Int64
	reportedBytes atomic.Int64 // of bytes, see GrowthSinceLastCall

	clearing    sync.Mutex // held by the one who clears flags; guards the next two
	flagsFrozen bool
	clearedRows int        // ClearFalse has looked at these, the first ones
	finding     sync.Mutex // held by the one who finds superseded rows, over mu of all heads

	// mu guards all below. Scans hold it for reading while they copy rows, never while they
	// hand them out.
	mu               sync.RWMutex
	gone             bool // the memory of the rows
	rows             appendedRows
	rowsInCells      int // of the rows; the others are in no cell yet
	searched         searchedRows
	cells            cellTable
	list             []*cell
	leastMOID        int32 // of the cells
	watermarks       *Watermarks
	cellsWithMaxCaps int // those with a table of greatest caps
	capsOf64Made     int // that these have
	spare            int // what bytes counts of memory that no row lies in yet
}

// NewHead returns an empty head that no one uses yet, see [Head.Pin]. Of older, the
// watermarks of everything older, the head keeps the pointer and changes nothing.
func NewHead(older *Watermarks) *Head {
	return &Head{olderWatermarks: older, cells: newCellTable(), leastMOID: math.MaxInt32,
		watermarks: NewWatermarks(), searched: searchedRows{newerNs: record.Acq.Min()}}
}

// Pin begins a use of the head.
func (h *Head) Pin() { h.users.Add(1) }

// Unpin ends a use that Pin began. With the last one the memory of the rows goes; counts stay.
// That of a head that no one ever pinned goes with the head.
func (h *Head) Unpin() {
	if h.users.Add(-1) > 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone, h.list = true, nil
	h.outsideCells.Store(0)
	h.rows.memory.giveBack()
	h.rows = appendedRows{}
}

// fillCells puts the rows that are in no cell yet into theirs. Every reader that must find all
// inserted rows begins with it.
func (h *Head) fillCells() {
	if h.outsideCells.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fillCellsLocked()
}

// endOfCells returns the row ID after those of the rows that are in cells.
func (h *Head) endOfCells() rowID {
	if h.rowsInCells == 0 {
		return 0
	}
	return h.rows.nth(h.rowsInCells)
}

// rlock takes mu for reading; mu.RUnlock ends it.
func (h *Head) rlock() {
	h.mu.RLock()
	if h.gone {
		h.mu.RUnlock()
		panic("BUG: a head is looked at after its last use")
	}
}

// Rows returns the number of rows.
func (h *Head) Rows() int { return int(h.rowCount.Load()) }

// Flagged returns the number of rows that may supersede an older one.
func (h *Head) Flagged() int {
	h.fillCells()
	return int(h.flagged.Load())
}

// HasTombs reports whether some rows are tombstones.
func (h *Head) HasTombs() bool { return h.tombs.Load() > 0 }

// Bytes returns about how much memory the rows take, once they are in cells, with what was made for
// those to come.
func (h *Head) Bytes() int64 { return h.bytes.Load() }

// GrowthSinceLastCall returns by how many bytes the memory of the rows has grown since the last
// call. It grows whenever rows go into cells, or are found to be superseded, and any reader may do
// both.
func (h *Head) GrowthSinceLastCall() int64 {
	now := h.bytes.Load()
	return now - h.reportedBytes.Swap(now)
}

// ReportedGrowth returns what GrowthSinceLastCall has returned together.
func (h *Head) ReportedGrowth() int64 { return h.reportedBytes.Load() }

// Watermarks returns those of everything up to and with this head.
func (h *Head) Watermarks() *Watermarks {
	h.fillCells()
	h.mu.RLock()
	defer h.mu.RUnlock()
	w := *h.olderWatermarks
	w.Raise(h.watermarks)
	return &w
}

// ReadAll replaces the rows of a batch by all rows of the head in acq order, and returns their
// flags as a bitmap by rank. Nothing may be inserted afterwards; scans go on.
//
// Cost: a copy, about 10 ns a row, and several times that where the batch has no memory yet.
func (h *Head) ReadAll(to *record.Batch) []uint64 {
	h.fillCells()
	h.rlock()
	defer h.mu.RUnlock()
	n, bytes := h.rows.len(), 0
	for _, p := range h.rows.groups {
		bytes += len(p.rows.Data)
	}
	to.Reset()
	to.CID, to.MID, to.MOID = emptied(to.CID, n), emptied(to.MID, n), emptied(to.MOID, n)
	to.CapNs, to.AcqNs = emptied(to.CapNs, n), emptied(to.AcqNs, n)
	to.Data = emptied(to.Data, int(min(uint64(bytes), math.MaxUint32)))
	flags := make([]uint64, (n+63)/64)
	for _, p := range h.rows.groups {
		to.AppendRows(&p.rows, 0, p.rows.Len())
		if p.first&63 == 0 {
			copy(flags[p.first>>6:], p.flagged)
			continue
		}
		for i := range p.rows.Len() {
			if hasBit(p.flagged, i) {
				setBit(flags, p.first+i)
			}
		}
	}
	return flags
}
