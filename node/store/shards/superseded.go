package shards

import (
	"iter"
	"math"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/segment"
)

// SupersededRows are the rows of a block that have a newer version. Only SearchedBelowNs changes.
//
// They are verified, or provisional. Verified ones were read from a block that was compared with
// its checksum afterwards, and hold for ever. Provisional ones add to these what was read within
// [segment.VerifyAfter] of that, and are dropped when it has passed, as the block may have rotted
// before it was read.
type SupersededRows struct {
	// FirstSearchedBelowNs: newer versions with smaller acqs were looked for when the positions
	// were found. Those that an event with a smaller acq hides did not count.
	FirstSearchedBelowNs int64
	Positions            []uint16 // in the block, ascending
	searchedBelowNs      atomic.Int64

	verified *SupersededRows // of provisional ones: those that they add to; nil for verified ones
	tick     uint32          // of the verification; 0: the block was not read
}

// NewSupersededRows returns what was found when newer versions below an acq were looked for, and
// keeps positions. The block was verified at a tick after its rows were read, or with 0 not read.
func NewSupersededRows(belowNs int64, positions []uint16, tick uint32) *SupersededRows {
	s := &SupersededRows{FirstSearchedBelowNs: belowNs, Positions: positions, tick: tick}
	s.searchedBelowNs.Store(belowNs)
	return s
}

// Provisional returns what was found in place of s, nil for nothing, when newer versions below an
// acq were looked for; nil if the block must be verified for it.
func (s *SupersededRows) Provisional(
	file *segment.File, belowNs int64, positions []uint16,
) *SupersededRows {
	verified := s
	if s != nil && s.verified != nil {
		verified = s.verified
	}
	if verified == nil || !file.IsRecent(verified.tick) {
		return nil
	}
	found := NewSupersededRows(belowNs, positions, verified.tick)
	found.verified = verified
	return found
}

// stillHolds returns s, or of provisional ones that must be dropped the verified ones; nil of nil.
func (s *SupersededRows) stillHolds(file *segment.File) *SupersededRows {
	if s != nil && s.verified != nil && !file.IsRecent(s.tick) {
		return s.verified
	}
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
// Cost: 8 bytes a block, and where a scan has looked some 80 bytes and 2 for each superseded row,
// twice that with provisional ones.
type SupersededTable struct {
	blocks atomic.Pointer[[]atomic.Pointer[SupersededRows]]
	sum    atomic.Pointer[SupersededSum]
}

// SupersededSum is what is known of all blocks of a segment together. It is of verified
// [SupersededRows], so it holds for ever. It never changes.
type SupersededSum struct {
	FirstSearchedBelowNs int64 // the greatest of the blocks
	SearchedBelowNs      int64 // the least of the blocks
	Rows                 int
}

// Sum returns the sum that was kept last, nil for none.
func (t *SupersededTable) Sum() *SupersededSum { return t.sum.Load() }

// KeepSum keeps the sum of what is known of all blocks, unless some of it is not verified, or a
// version with a given acq has not been looked for in all of them.
func (t *SupersededTable) KeepSum(newestNs int64, blocks iter.Seq[*SupersededRows]) {
	sum := SupersededSum{FirstSearchedBelowNs: math.MinInt64, SearchedBelowNs: math.MaxInt64}
	for s := range blocks {
		sum.FirstSearchedBelowNs = max(sum.FirstSearchedBelowNs, s.FirstSearchedBelowNs)
		sum.SearchedBelowNs = min(sum.SearchedBelowNs, s.SearchedBelowNs())
		sum.Rows += len(s.Positions)
		if s.verified != nil || sum.SearchedBelowNs <= newestNs {
			return
		}
	}
	t.sum.Store(&sum)
}

// Of returns what is known of a block of a file, nil for nothing.
func (t *SupersededTable) Of(block uint32, file *segment.File) *SupersededRows {
	if all := t.blocks.Load(); all != nil {
		return (*all)[block].Load().stillHolds(file)
	}
	return nil
}

// Keep keeps what a scan found of a block of a file, which holds a number of rows, unless another
// has found it out for a later acq, or there is too much.
func (t *SupersededTable) Keep(
	block uint32, file *segment.File, rows int, found *SupersededRows,
) {
	if len(found.Positions)*maxSupersededShare > rows {
		return
	}
	all := t.blocks.Load()
	if all == nil {
		made := make([]atomic.Pointer[SupersededRows], file.Blocks())
		if t.blocks.CompareAndSwap(nil, &made) {
			all = &made
		} else {
			all = t.blocks.Load()
		}
	}
	at := &(*all)[block]
	for {
		old := at.Load()
		if known := old.stillHolds(file); known != nil &&
			known.SearchedBelowNs() >= found.SearchedBelowNs() || at.CompareAndSwap(old, found) {
			return
		}
	}
}
