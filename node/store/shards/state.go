package shards

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/record"
)

// State is the immutable list of the segments and heads of a shard. The rows of Sealed come before
// those of Immutable, and those before the rows of Head, in acq; only backdated rows have acqs
// among the others.
type State struct {
	Sealed    []*Segment
	Immutable []*ImmutableHead // being sealed, oldest first
	Head      Head
	firstLSN  uint64 // of the first entry in Head
	Info      BackdatedInfo

	// Backdated is the state of the backdated shard, when its segments and heads are in the lists,
	// too, and own that of the shard itself; both are nil otherwise. own alone is what the lists
	// are a part of: they have only the head shards of a box.
	Backdated, own *State

	users atomic.Int64 // the shard, while this is its present state, and scans
}

// with returns a copy that is not used yet.
func (s *State) with(sealed []*Segment, immutable []*ImmutableHead) *State {
	return &State{Sealed: sealed, Immutable: immutable, Head: s.Head, firstLSN: s.firstLSN,
		Info: s.Info}
}

// Unpin ends a use of the read state; the last one ends its use of the segments and heads.
func (s *State) Unpin() {
	if s.users.Add(-1) > 0 {
		return
	}
	if s.own != nil {
		s.own.Unpin()
		if s.Backdated != nil {
			s.Backdated.Unpin()
		}
		return
	}
	for _, seg := range s.Sealed {
		seg.Unpin()
	}
	s.UnpinHeads()
}

// UnpinHeads ends the use of the heads only, for a store that closes its segments itself.
func (s *State) UnpinHeads() {
	s.Head.Unpin()
	for _, immutable := range s.Immutable {
		immutable.Head.Unpin()
	}
}

// Files yields the files of the read state.
func (s *State) Files(yield func(*segment.File) bool) {
	for _, seg := range s.Sealed {
		if !yield(seg.File) {
			return
		}
	}
}

// EachHead calls visit with the head shards of the heads, newest first.
func (s *State) EachHead(visit func(*index.Head)) {
	for _, h := range s.Head.Shards {
		visit(h)
	}
	for _, immutable := range slices.Backward(s.Immutable) {
		for _, h := range immutable.Head.Shards {
			visit(h)
		}
	}
}

// HeadsByShard yields for each head shard those of the heads, oldest first. Only heads of one list
// have rows of the same device. The list is valid during the call. The state is of a shard without
// its backdated shard.
func (s *State) HeadsByShard(yield func([]*index.Head) bool) {
	heads := make([]*index.Head, 0, 8)
	for i, last := range s.Head.Shards {
		heads = heads[:0]
		for _, immutable := range s.Immutable {
			heads = append(heads, immutable.Head.Shards[i])
		}
		if !yield(append(heads, last)) {
			return
		}
	}
}

// IsEmpty reports whether the read state holds no row.
func (s *State) IsEmpty() bool {
	return len(s.Sealed)+len(s.Immutable) == 0 && s.Head.Rows() == 0
}

// Pin returns the present state, to be unpinned by the caller.
func (sh *Shard) Pin() *State {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	state := sh.State.Load()
	state.users.Add(1)
	return state
}

// PinWithBackdated returns one read state of the shard and its backdated shard, to be unpinned by
// the caller.
func (sh *Shard) PinWithBackdated() *State {
	own := sh.Pin()
	if sh.Backdated.State.Load().IsEmpty() {
		return own
	}
	backdated := sh.Backdated.Pin()
	both := &State{own: own, Backdated: backdated, Head: own.Head,
		Sealed:    slices.Concat(backdated.Sealed, own.Sealed),
		Immutable: slices.Concat(backdated.Immutable, own.Immutable)}
	if backdated.Head.Rows() > 0 {
		last := &ImmutableHead{Head: backdated.Head, Info: backdated.Info}
		both.Immutable = append([]*ImmutableHead{last}, both.Immutable...)
	}
	both.users.Store(1)
	return both
}

// PinFor is PinWithBackdated for a box: where no backdated row can lie in it, only what the shard
// itself holds, and of that the head shards that can have devices of the box.
func (sh *Shard) PinFor(box *record.Box) *State {
	state := sh.PinWithBackdated()
	if state.Backdated != nil {
		if state.Backdated.NewestPut(box, manifest.NoPut) != manifest.NoPut {
			return state
		}
		state.Backdated.Unpin()
		state = state.own
	}
	if wanted := headShardsOf(box, len(state.Head.Shards)); wanted != nil {
		return state.ofHeadShards(wanted)
	}
	return state
}

// ofHeadShards returns a read state of some head shards only; it owns the use of s.
func (s *State) ofHeadShards(wanted []bool) *State {
	some := &State{own: s, Head: s.Head.of(wanted), Sealed: s.Sealed}
	for _, immutable := range s.Immutable {
		some.Immutable = append(some.Immutable,
			&ImmutableHead{Head: immutable.Head.of(wanted), Info: immutable.Info})
	}
	some.users.Store(1)
	return some
}

// WithoutBackdated returns the state of the shard itself, which is pinned with s.
func (s *State) WithoutBackdated() *State {
	if s.Backdated != nil {
		return s.own
	}
	return s
}

// AppendBelow appends a function for each segment with rows at or above an acq, and for each head
// with rows. The function returns how many of these rows lie below the acq that it is given.
func (s *State) AppendBelow(
	parts []func(acqNs int64) int, fromNs int64,
) []func(acqNs int64) int {
	for _, seg := range s.Sealed {
		if seg.Index.Bounds()[record.Acq].Max >= fromNs {
			parts = append(parts, func(acqNs int64) int {
				_, rows := seg.Index.RankRange(math.MinInt64, acqNs)
				return int(rows)
			})
		}
	}
	s.EachHead(func(h *index.Head) {
		if h.Rows() > 0 {
			parts = append(parts, h.CountBelow)
		}
	})
	return parts
}
