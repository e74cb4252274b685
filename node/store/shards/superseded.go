package shards

import "sync/atomic"

// SupersededRows are the rows of a block that have a newer version. All but BelowNs is immutable.
type SupersededRows struct {
	// SinceNs: newer versions with smaller acqs were looked for when the positions were found.
	// Those that an event with a smaller acq hides did not count.
	SinceNs   int64
	Positions []uint16 // in the block, ascending
	belowNs   atomic.Int64
}

// NewSupersededRows returns what was found with newer versions below an acq, and keeps positions.
func NewSupersededRows(sinceNs int64, positions []uint16) *SupersededRows {
	s := &SupersededRows{SinceNs: sinceNs, Positions: positions}
	s.belowNs.Store(sinceNs)
	return s
}

// BelowNs returns up to which acq newer versions were looked for: none from SinceNs on is of a row
// of the block.
func (s *SupersededRows) BelowNs() int64 { return s.belowNs.Load() }

// Raise notes that no newer version of a row of the block has an acq from BelowNs on and below one.
func (s *SupersededRows) Raise(belowNs int64) {
	for old := s.belowNs.Load(); old < belowNs; old = s.belowNs.Load() {
		if s.belowNs.CompareAndSwap(old, belowNs) {
			return
		}
	}
}

// maxSupersededShare is of how many rows of a block one may be superseded at most for the positions
// to be kept: a block of the largest size then keeps 4 KiB.
const maxSupersededShare = 4

// SupersededTable keeps the superseded rows of the blocks of a segment, as far as scans have found
// them: to find them again, a scan looks only for what came since. The zero value is empty. All
// methods may be called from many goroutines.
//
// Cost: 8 bytes a block, and where a scan has looked some 60 bytes and 2 for each superseded row.
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
	for old := at.Load(); old == nil || old.BelowNs() < found.BelowNs(); old = at.Load() {
		if at.CompareAndSwap(old, found) {
			return
		}
	}
}
