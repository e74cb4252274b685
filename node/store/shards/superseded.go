package shards

import "sync/atomic"

// SupersededRows are the rows of a block that have a newer version. It is immutable.
type SupersededRows struct {
	// BelowNs: newer versions with a smaller acq were looked for. Those that an event with a
	// smaller acq hides did not count.
	BelowNs   int64
	Positions []uint16 // in the block, ascending
}

// maxSupersededShare is of how many rows of a block one may be superseded at most for the positions
// to be kept: a block of the largest size then keeps 4 KiB.
const maxSupersededShare = 4

// SupersededTable keeps the superseded rows of the blocks of a segment, as far as scans have found
// them: to find them again, a scan looks only for what came since. The zero value is empty. All
// methods may be called from many goroutines.
//
// Cost: 8 bytes a block, and where a scan has looked some 40 bytes and 2 for each superseded row.
type SupersededTable struct {
	blocks atomic.Pointer[[]atomic.Pointer[SupersededRows]]
}

// Of returns what is known of a block, nil for nothing.
func (t *SupersededTable) Of(block uint32) *SupersededRows {
	if all := t.blocks.Load(); all != nil {
		return (*all)[block].Load()
	}
	return nil
}

// Keep keeps what a scan found of one of a number of blocks, unless another has found it out for a
// later acq, or there is too much.
func (t *SupersededTable) Keep(block uint32, blocks, rows int, found *SupersededRows) {
	if len(found.Positions)*maxSupersededShare > rows {
		return
	}
	all := t.blocks.Load()
	if all == nil {
		made := make([]atomic.Pointer[SupersededRows], blocks)
		if t.blocks.CompareAndSwap(nil, &made) {
			all = &made
		} else {
			all = t.blocks.Load()
		}
	}
	at := &(*all)[block]
	for old := at.Load(); old == nil || old.BelowNs < found.BelowNs; old = at.Load() {
		if at.CompareAndSwap(old, found) {
			return
		}
	}
}
