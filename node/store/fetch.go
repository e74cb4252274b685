package store

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/memory"
)

// fetchGap is how many bytes between two blocks are read with them rather than left out.
const fetchGap = 32 << 10

// fetch has the blocks of candidates read side by side, before they are opened one after another,
// unless they are likely in memory: verified lately, in a store that fits it. It also reads the
// clock by which blocks are verified again.
func (s *Store) fetch(seg *sealedSegment, candidates []index.Candidate) {
	s.blockClock.Look()
	tight := s.tight.Load()
	from, to := uint64(0), uint64(0)
	for _, c := range candidates {
		if !tight && seg.file.Recent(int(c.Block)) {
			continue
		}
		info := seg.idx.Block(c.Block)
		if to > 0 && info.Offset <= to+fetchGap {
			to = info.Offset + uint64(info.Size)
			continue
		}
		if to > 0 {
			seg.file.WillNeed(from, to-from)
		}
		from, to = info.Offset, info.Offset+uint64(info.Size)
	}
	if to > 0 {
		seg.file.WillNeed(from, to-from)
	}
}

// setTight notes whether the segments are larger than half the memory of the process, so that what
// was read may be gone again.
func (s *Store) setTight() {
	total := uint64(0)
	for _, sh := range s.all {
		for _, seg := range sh.snapshot.Load().sealed {
			total += uint64(seg.file.Size())
		}
	}
	may := memory.Limit()
	s.tight.Store(may > 0 && total > may/2)
}
