// Package shards keeps what each shard of a store holds: sealed segments, heads that are being
// sealed, and the head that takes rows, each divided into head shards.
//
// It owns the read state of a shard, which is replaced as a whole and never changed, and the uses
// that keep segments mapped and the memory of heads: a reader pins a read state and unpins it. It
// opens segments and their blocks, describes segments as the manifest does and numbers the log
// entries of a shard, but writes neither file. It carries what merges and the partial cache know of
// a segment and does not use it. Its main types are [Shard], [State] and [Segment]. It starts no
// goroutines; readers and what replaces read states may be on different ones.
package shards

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/wal"
)

// Shard is a part of a store, by hash of tenant and device range, with a head and sealed segments
// of its own.
type Shard struct {
	ID        uint32
	Backdated *Shard // of the backdated rows; nil when this is such a one
	LastLSN   uint64 // of the newest log entry; the committer's, and recovery's

	// mu guards the replacing of the read state; readers load it without.
	mu    sync.Mutex
	State atomic.Pointer[State]
}

// ImmutableHead is a head that takes no more rows, with the LSNs of the log entries that it covers.
type ImmutableHead struct {
	Head              Head
	FirstLSN, LastLSN uint64
	Info              BackdatedInfo
}

// NextEntry returns the next log entry of the shard. The term of a stand-alone store is always 1.
func (sh *Shard) NextEntry() wal.Entry {
	sh.LastLSN++
	return wal.Entry{Shard: sh.ID, Term: 1, LSN: sh.LastLSN, Kind: layout.EntryRows}
}

// begin gives a new shard its first head.
func (sh *Shard) begin(h Head) {
	sh.change(func(*State) *State { return &State{firstLSN: 1, Head: h} })
}

// Rotate starts a new head, unless the present one is empty. The committer calls it between
// commits, so that no row is inserted into the old head afterwards.
func (sh *Shard) Rotate() (immutable bool) {
	sh.change(func(old *State) *State {
		if immutable = old.Head.Rows() > 0; !immutable {
			return nil
		}
		next := old.with(old.Sealed, append(slices.Clip(old.Immutable), &ImmutableHead{
			Head: old.Head, FirstLSN: old.firstLSN, LastLSN: sh.LastLSN, Info: old.Info}))
		next.Head = newHead(old.Head.Watermarks(), len(old.Head.Shards))
		next.firstLSN = sh.LastLSN + 1
		return next
	})
	return immutable
}

// change makes what f returns, nil for no change, the present state. What only the one before
// used goes after the lock: to unmap a gigabyte takes milliseconds.
func (sh *Shard) change(f func(old *State) *State) {
	if old := sh.swapState(f); old != nil {
		old.Unpin()
	}
}

// swapState returns the read state that is present no more, if there is one, for the caller to
// unpin.
func (sh *Shard) swapState(f func(old *State) *State) *State {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	next := f(sh.State.Load())
	if next == nil {
		return nil
	}
	next.users.Store(1)
	for _, seg := range next.Sealed {
		seg.Pin()
	}
	next.Head.Pin()
	for _, immutable := range next.Immutable {
		immutable.Head.Pin()
	}
	return sh.State.Swap(next)
}

// SealedUpTo returns the LSN up to which sealed segments hold everything.
func (sh *Shard) SealedUpTo() uint64 {
	state := sh.State.Load()
	if len(state.Immutable) > 0 {
		return state.Immutable[0].FirstLSN - 1
	}
	return state.firstLSN - 1
}

// Replace swaps the oldest immutable head for the segment that now holds its rows, nil when none is
// left.
func (sh *Shard) Replace(immutable *ImmutableHead, seg *Segment) {
	sh.change(func(old *State) *State {
		if len(old.Immutable) == 0 || old.Immutable[0] != immutable {
			panic("BUG: heads of a shard are sealed out of order")
		}
		if seg == nil {
			return old.with(old.Sealed, old.Immutable[1:])
		}
		return old.with(append(slices.Clip(old.Sealed), seg), old.Immutable[1:])
	})
	if seg != nil {
		seg.Unpin()
	}
}

// ReplaceRun swaps neighbouring segments for the one that now holds their rows, nil when none is
// left.
func (sh *Shard) ReplaceRun(run []*Segment, merged *Segment) {
	sh.change(func(old *State) *State {
		at := slices.Index(old.Sealed, run[0])
		if at < 0 || at+len(run) > len(old.Sealed) ||
			old.Sealed[at+len(run)-1] != run[len(run)-1] {
			panic("BUG: merged segments are not neighbours any more")
		}
		sealed := slices.Concat(old.Sealed[:at], old.Sealed[at+len(run):])
		if merged != nil {
			sealed = slices.Insert(sealed, at, merged)
		}
		return old.with(sealed, old.Immutable)
	})
	if merged != nil {
		merged.Unpin()
	}
}

// AddRecovered puts a segment behind those that are there.
func (sh *Shard) AddRecovered(seg *Segment, marks *index.Watermarks) {
	sh.change(func(old *State) *State {
		next := old.with(append(slices.Clip(old.Sealed), seg), old.Immutable)
		if next.firstLSN = max(old.firstLSN, seg.Meta.LastLSN+1); !sh.IsBackdated() {
			marks.Raise(old.Head.Watermarks())
			next.Head = newHead(marks, len(old.Head.Shards))
		}
		sh.LastLSN = next.firstLSN - 1
		return next
	})
	seg.Unpin()
}

// SkipTo makes the shard go on after an LSN that no segment and no head holds: all was purged.
func (sh *Shard) SkipTo(last uint64) {
	sh.change(func(old *State) *State {
		if old.firstLSN > last {
			return nil
		}
		next := old.with(old.Sealed, old.Immutable)
		next.firstLSN = last + 1
		sh.LastLSN = last
		return next
	})
}
