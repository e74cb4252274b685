package store

import (
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
)

// shard is a group of slots with a head and sealed segments of its own.
type shard struct {
	id        uint32
	lastIndex uint64 // index of the newest log entry; the committer's, and recovery's

	// mu guards the replacing of the snapshot; readers load it without.
	mu       sync.Mutex
	snapshot atomic.Pointer[snapshot]
}

// snapshot is an immutable list of everything that holds rows of the shard. The rows of sealed
// come before those of frozen, and those before the rows of head, in acq.
type snapshot struct {
	sealed []*sealedSegment
	frozen []*frozenHead // being sealed, oldest first
	head   *index.Head
	first  uint64 // log index of the first entry in head
}

// sealedSegment is an open sealed segment and its index.
type sealedSegment struct {
	meta segmentMeta
	file *segment.Sealed
	idx  *index.Segment
}

// frozenHead is a head that takes no more rows, with the log indexes it covers.
type frozenHead struct {
	head        *index.Head
	first, last uint64
}

// nextEntry gives the next log entry of the shard its place. The term is 1 until replication
// decides terms.
func (sh *shard) nextEntry() segment.Entry {
	sh.lastIndex++
	return segment.Entry{Shard: sh.id, Term: 1, Index: sh.lastIndex, Kind: entryRows}
}

// freeze starts a new head, unless the present one is empty. The committer calls it between
// commits, so that no row is inserted into the old head afterwards.
func (sh *shard) freeze() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.snapshot.Load()
	if old.head.Rows() == 0 {
		return false
	}
	frozen := &frozenHead{head: old.head, first: old.first, last: sh.lastIndex}
	next := *old
	next.frozen = append(old.frozen[:len(old.frozen):len(old.frozen)], frozen)
	next.head = index.NewHead(old.head.Watermarks())
	next.first = sh.lastIndex + 1
	sh.snapshot.Store(&next)
	return true
}

// sealedUpTo returns the log index up to which sealed segments hold everything.
func (sh *shard) sealedUpTo() uint64 {
	now := sh.snapshot.Load()
	if len(now.frozen) > 0 {
		return now.frozen[0].first - 1
	}
	return now.first - 1
}

// replace swaps the oldest frozen head for the segment that now holds its rows.
func (sh *shard) replace(frozen *frozenHead, seg *sealedSegment) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.snapshot.Load()
	if len(old.frozen) == 0 || old.frozen[0] != frozen {
		panic("BUG: heads of a shard are sealed out of order")
	}
	next := *old
	next.frozen = old.frozen[1:]
	next.sealed = append(old.sealed[:len(old.sealed):len(old.sealed)], seg)
	sh.snapshot.Store(&next)
}
