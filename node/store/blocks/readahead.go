package blocks

import (
	"iter"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/shards"
)

// readAheadGap is how many bytes between two blocks are read with them rather than left out.
const readAheadGap = 32 << 10

// Readahead asks for blocks ahead. It is shared by all that reads a store.
type Readahead struct {
	Clock         *segment.VerifyClock // by which blocks are verified again
	ExceedsMemory atomic.Bool          // segments do not fit memory: what was read may be gone
}

// Prefetch asks the system to read the blocks of candidates concurrently, before they are opened
// one after another, except those that are probably in memory: verified recently, in a store that
// fits memory.
func (a *Readahead) Prefetch(seg *shards.Segment, candidates []index.Candidate) {
	tight := a.ExceedsMemory.Load()
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

// Each yields candidates, and asks for them some at a time.
func (a *Readahead) Each(
	seg *shards.Segment, candidates []index.Candidate,
) iter.Seq[index.Candidate] {
	return func(yield func(index.Candidate) bool) {
		for i, c := range candidates {
			if i%TaskBlocks == 0 {
				a.Prefetch(seg, candidates[i:min(i+TaskBlocks, len(candidates))])
			}
			if !yield(c) {
				return
			}
		}
	}
}
