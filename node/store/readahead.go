package store

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/node/store/shards"
)

// readAheadGap is how many bytes between two blocks are read with them rather than left out.
const readAheadGap = 32 << 10

// readAhead asks the system to read the blocks of candidates concurrently, before they are opened
// one after another, except those that are probably in memory: verified recently, in a store that
// fits memory. It also refreshes the clock by which blocks are verified again.
func (s *Store) readAhead(seg *shards.Segment, candidates []index.Candidate) {
	s.blockClock.Refresh()
	tight := s.exceedsMemory.Load()
	from, to := uint64(0), uint64(0)
	for _, c := range candidates {
		if !tight && seg.File.RecentlyVerified(int(c.Block)) {
			continue
		}
		info := seg.Index.Block(c.Block)
		if to > 0 && info.Offset <= to+readAheadGap {
			to = info.Offset + uint64(info.Size)
			continue
		}
		if to > 0 {
			seg.File.WillNeed(from, to-from)
		}
		from, to = info.Offset, info.Offset+uint64(info.Size)
	}
	if to > 0 {
		seg.File.WillNeed(from, to-from)
	}
}

// setExceedsMemory notes whether the segments are larger than half the memory of the process, so
// that what was read may be gone again.
func (s *Store) setExceedsMemory() {
	total := uint64(0)
	for _, sh := range s.all {
		for _, seg := range sh.State.Load().Sealed {
			total += uint64(seg.File.Size())
		}
	}
	may := memory.Limit()
	s.exceedsMemory.Store(may > 0 && total > may/2)
}
