package store

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
)

// shard is a group of slots with a head and sealed segments of its own.
type shard struct {
	id        uint32
	backdated *shard // of the backdated rows; nil when this is such a one
	lastIndex uint64 // index of the newest log entry; the committer's, and recovery's

	// mu guards the replacing of the read state; readers load it without.
	mu    sync.Mutex
	state atomic.Pointer[readState]
}

// sealedSegment is an open sealed segment and its index. Snapshots, and merges that read it, use
// it; it is unmapped when nobody does any more.
type sealedSegment struct {
	meta   manifest.Segment
	file   *segment.Sealed
	idx    *index.Segment
	series *index.SeriesTable // nil when the segment has none
	kept   partials.Segment   // what sinks know of its blocks
	// users are who opened it, until it is in a read state, and then snapshots and merges.
	users atomic.Int64

	damaged atomic.Bool // see [damage.Known]; no merge reads it in vain

	purgedTo atomic.Int64 // no row is concerned by a purge with this acq or a smaller one
	expiring expiring     // the merger's

	// window says with which neighbours it may be merged, as the merger has found; nil: with any,
	// or not known yet.
	window atomic.Pointer[mergepolicy.Window]
}

func (seg *sealedSegment) retain() { seg.users.Add(1) }

func (seg *sealedSegment) release() {
	if seg.users.Add(-1) == 0 {
		seg.kept.Drop()
		_ = seg.file.Close() // unmaps what was only read
	}
}

// immutableHead is a head that takes no more rows, with the log indexes it covers.
type immutableHead struct {
	head        *index.Head
	first, last uint64
	info        backdatedInfo
}

// nextEntry returns the next log entry of the shard. The term of a stand-alone store is always 1.
func (sh *shard) nextEntry() segment.Entry {
	sh.lastIndex++
	return segment.Entry{Shard: sh.id, Term: 1, Index: sh.lastIndex, Kind: layout.EntryRows}
}

// begin gives a new shard its first head.
func (sh *shard) begin(h *index.Head) {
	sh.change(func(*readState) *readState { return &readState{first: 1, head: h} })
}

// rotate starts a new head, unless the present one is empty. The committer calls it between
// commits, so that no row is inserted into the old head afterwards.
func (sh *shard) rotate() (immutable bool) {
	sh.change(func(old *readState) *readState {
		if immutable = old.head.Rows() > 0; !immutable {
			return nil
		}
		next := old.with(old.sealed, append(slices.Clip(old.immutable), &immutableHead{
			head: old.head, first: old.first, last: sh.lastIndex, info: old.info}))
		next.head = index.NewHead(old.head.Watermarks())
		next.first = sh.lastIndex + 1
		return next
	})
	return immutable
}

// change makes what f returns, nil for no change, the present state. What only the one before
// used goes after the lock: to unmap a gigabyte takes milliseconds.
func (sh *shard) change(f func(old *readState) *readState) {
	if old := sh.publish(f); old != nil {
		old.release()
	}
}

// publish returns the read state that is present no more, if there is one, for the caller to
// release.
func (sh *shard) publish(f func(old *readState) *readState) *readState {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	next := f(sh.state.Load())
	if next == nil {
		return nil
	}
	next.users.Store(1)
	for _, seg := range next.sealed {
		seg.retain()
	}
	next.head.Retain()
	for _, f := range next.immutable {
		f.head.Retain()
	}
	return sh.state.Swap(next)
}

// sealedUpTo returns the log index up to which sealed segments hold everything.
func (sh *shard) sealedUpTo() uint64 {
	now := sh.state.Load()
	if len(now.immutable) > 0 {
		return now.immutable[0].first - 1
	}
	return now.first - 1
}

// replace swaps the oldest immutable head for the segment that now holds its rows, nil when none is
// left.
func (sh *shard) replace(immutable *immutableHead, seg *sealedSegment) {
	sh.change(func(old *readState) *readState {
		if len(old.immutable) == 0 || old.immutable[0] != immutable {
			panic("BUG: heads of a shard are sealed out of order")
		}
		if seg == nil {
			return old.with(old.sealed, old.immutable[1:])
		}
		return old.with(append(slices.Clip(old.sealed), seg), old.immutable[1:])
	})
	if seg != nil {
		seg.release()
	}
}

// replaceRun swaps neighbouring segments for the one that now holds their rows, nil when none is
// left.
func (sh *shard) replaceRun(run []*sealedSegment, merged *sealedSegment) {
	sh.change(func(old *readState) *readState {
		at := slices.Index(old.sealed, run[0])
		if at < 0 || at+len(run) > len(old.sealed) ||
			old.sealed[at+len(run)-1] != run[len(run)-1] {
			panic("BUG: merged segments are not neighbours any more")
		}
		sealed := slices.Concat(old.sealed[:at], old.sealed[at+len(run):])
		if merged != nil {
			sealed = slices.Insert(sealed, at, merged)
		}
		return old.with(sealed, old.immutable)
	})
	if merged != nil {
		merged.release()
	}
}
