package store

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/segment"
)

// shard is a group of slots with a head and sealed segments of its own.
type shard struct {
	id        uint32
	aside     *shard // of the rows that came below the horizon; nil when this is such a one
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
	aside  asideHead

	// main and below are what a pair was made of, a shard and the one aside; nil otherwise.
	main, below *snapshot

	users atomic.Int64 // the shard, while this is its present snapshot, and scans
}

// with returns a copy that nobody uses yet.
func (s *snapshot) with(sealed []*sealedSegment, frozen []*frozenHead) *snapshot {
	return &snapshot{sealed: sealed, frozen: frozen, head: s.head, first: s.first, aside: s.aside}
}

// release ends a use of the snapshot; the last one ends its use of the segments and heads.
func (s *snapshot) release() {
	if s.users.Add(-1) > 0 {
		return
	}
	if s.main != nil {
		s.main.release()
		s.below.release()
		return
	}
	for _, seg := range s.sealed {
		seg.release()
	}
	s.releaseHeads()
}

func (s *snapshot) releaseHeads() {
	s.head.Release()
	for _, f := range s.frozen {
		f.head.Release()
	}
}

// sealedSegment is an open sealed segment and its index. Snapshots, and merges that read it, use
// it; it is unmapped when nobody does any more.
type sealedSegment struct {
	meta   segmentMeta
	file   *segment.Sealed
	idx    *index.Segment
	series *index.SeriesTable // nil when the segment has none
	kept   partials.Segment   // what sinks know of its blocks
	// users are who opened it, until it is in a snapshot, and then snapshots and merges.
	users atomic.Int64

	damaged atomic.Bool // see damages; no merge reads it in vain

	purgedTo atomic.Int64 // no row is concerned by a purge with this acq or a smaller one
	expiring expiring     // the merger's

	// window says with which neighbours it may be merged, as the merger has found; nil: with any,
	// or not known yet.
	window atomic.Pointer[ageWindow]
}

func (seg *sealedSegment) retain() { seg.users.Add(1) }

func (seg *sealedSegment) release() {
	if seg.users.Add(-1) == 0 {
		seg.kept.Drop()
		_ = seg.file.Close() // unmaps what was only read
	}
}

// mappings yields the files of the snapshot.
func (s *snapshot) mappings(yield func(*segment.Sealed) bool) {
	for _, seg := range s.sealed {
		if !yield(seg.file) {
			return
		}
	}
}

// frozenHead is a head that takes no more rows, with the log indexes it covers.
type frozenHead struct {
	head        *index.Head
	first, last uint64
	aside       asideHead
}

// nextEntry gives the next log entry of the shard its place. The term is 1 until replication
// decides terms.
func (sh *shard) nextEntry() segment.Entry {
	sh.lastIndex++
	return segment.Entry{Shard: sh.id, Term: 1, Index: sh.lastIndex, Kind: entryRows}
}

// begin gives a new shard its first head.
func (sh *shard) begin(h *index.Head) {
	sh.change(func(*snapshot) *snapshot { return &snapshot{first: 1, head: h} })
}

// freeze starts a new head, unless the present one is empty. The committer calls it between
// commits, so that no row is inserted into the old head afterwards.
func (sh *shard) freeze() (frozen bool) {
	sh.change(func(old *snapshot) *snapshot {
		if frozen = old.head.Rows() > 0; !frozen {
			return nil
		}
		next := old.with(old.sealed, append(slices.Clip(old.frozen), &frozenHead{head: old.head,
			first: old.first, last: sh.lastIndex, aside: old.aside}))
		next.head = index.NewHead(old.head.Watermarks())
		next.first = sh.lastIndex + 1
		return next
	})
	return frozen
}

// acquire returns the present snapshot, to be released by the caller.
func (sh *shard) acquire() *snapshot {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := sh.snapshot.Load()
	now.users.Add(1)
	return now
}

// change makes what f returns, nil for no change, the present snapshot. What only the one before
// used goes after the lock: to unmap a gigabyte takes milliseconds.
func (sh *shard) change(f func(old *snapshot) *snapshot) {
	if old := sh.publish(f); old != nil {
		old.release()
	}
}

// publish returns the snapshot that is present no more, if there is one, for the caller to release.
func (sh *shard) publish(f func(old *snapshot) *snapshot) *snapshot {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	next := f(sh.snapshot.Load())
	if next == nil {
		return nil
	}
	next.users.Store(1)
	for _, seg := range next.sealed {
		seg.retain()
	}
	next.head.Retain()
	for _, f := range next.frozen {
		f.head.Retain()
	}
	return sh.snapshot.Swap(next)
}

// sealedUpTo returns the log index up to which sealed segments hold everything.
func (sh *shard) sealedUpTo() uint64 {
	now := sh.snapshot.Load()
	if len(now.frozen) > 0 {
		return now.frozen[0].first - 1
	}
	return now.first - 1
}

// replace swaps the oldest frozen head for the segment that now holds its rows, nil when none is
// left.
func (sh *shard) replace(frozen *frozenHead, seg *sealedSegment) {
	sh.change(func(old *snapshot) *snapshot {
		if len(old.frozen) == 0 || old.frozen[0] != frozen {
			panic("BUG: heads of a shard are sealed out of order")
		}
		if seg == nil {
			return old.with(old.sealed, old.frozen[1:])
		}
		return old.with(append(slices.Clip(old.sealed), seg), old.frozen[1:])
	})
	if seg != nil {
		seg.release()
	}
}

// replaceRun swaps neighbouring segments for the one that now holds their rows, nil when none is
// left.
func (sh *shard) replaceRun(run []*sealedSegment, merged *sealedSegment) {
	sh.change(func(old *snapshot) *snapshot {
		at := slices.Index(old.sealed, run[0])
		if at < 0 || at+len(run) > len(old.sealed) ||
			old.sealed[at+len(run)-1] != run[len(run)-1] {
			panic("BUG: merged segments are not neighbours any more")
		}
		sealed := slices.Concat(old.sealed[:at], old.sealed[at+len(run):])
		if merged != nil {
			sealed = slices.Insert(sealed, at, merged)
		}
		return old.with(sealed, old.frozen)
	})
	if merged != nil {
		merged.release()
	}
}
