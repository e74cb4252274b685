package shards

import "sync/atomic"

// SupersededRows are the rows of a block that have a newer version. Only SearchedBelowNs changes.
type SupersededRows struct {
	// FirstSearchedBelowNs: newer versions with smaller acqs were looked for when the positions
	// were found. Those that an event with a smaller acq hides did not count.
	FirstSearchedBelowNs int64
	Positions            []uint16 // in the block, ascending
	searchedBelowNs      atomic.Int64
}

// NewSupersededRows returns what was found when newer versions below an acq were looked for, and
// keeps positions.
func NewSupersededRows(belowNs int64, positions []uint16) *SupersededRows {
	s := &SupersededRows{FirstSearchedBelowNs: belowNs, Positions: positions}
	s.searchedBelowNs.Store(belowNs)
	return s
}

// SearchedBelowNs returns below which acq newer versions were looked for by now: none from
// FirstSearchedBelowNs on is of a row of the block.
func (s *SupersededRows) SearchedBelowNs() int64 { return s.searchedBelowNs.Load() }

// Raise notes that no newer version of a row of the block has an acq from SearchedBelowNs on and
// below one.
func (s *SupersededRows) Raise(belowNs int64) {
	for old := s.searchedBelowNs.Load(); old < belowNs; old = s.searchedBelowNs.Load() {
		if s.searchedBelowNs.CompareAndSwap(old, belowNs) {
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
	belowNs := found.SearchedBelowNs()
	for old := at.Load(); old == nil || old.SearchedBelowNs() < belowNs; old = at.Load() {
		if at.CompareAndSwap(old, found) {
			return
		}
	}
}
