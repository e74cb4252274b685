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
// those of Immutable, and those before the rows of Head, in acq. In a combined read state, the
// backdated rows have acqs among the others.
type State struct {
	Sealed    []*Segment
	Immutable []*ImmutableHead // being sealed, oldest first
	Head      *index.Head
	firstLSN  uint64 // of the first entry in Head
	Info      BackdatedInfo

	// Main and Backdated are what a combined read state was made of, the states of a shard and of
	// its backdated shard; nil otherwise.
	Main, Backdated *State

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
	if s.Main != nil {
		s.Main.Unpin()
		s.Backdated.Unpin()
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
	for _, f := range s.Immutable {
		f.Head.Unpin()
	}
}

// Mappings yields the files of the read state.
func (s *State) Mappings(yield func(*segment.File) bool) {
	for _, seg := range s.Sealed {
		if !yield(seg.File) {
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
	now := sh.State.Load()
	now.users.Add(1)
	return now
}

// PinCombined returns the combined read state of the shard and its backdated shard, to be unpinned
// by the caller.
func (sh *Shard) PinCombined() *State {
	main := sh.Pin()
	if sh.Backdated.State.Load().IsEmpty() {
		return main
	}
	backdated := sh.Backdated.Pin()
	combined := &State{Main: main, Backdated: backdated, Head: main.Head,
		Sealed:    slices.Concat(backdated.Sealed, main.Sealed),
		Immutable: slices.Concat(backdated.Immutable, main.Immutable)}
	if backdated.Head.Rows() > 0 {
		last := &ImmutableHead{Head: backdated.Head, Info: backdated.Info}
		combined.Immutable = append([]*ImmutableHead{last}, combined.Immutable...)
	}
	combined.users.Store(1)
	return combined
}

// PinFor is PinCombined for a box: where no row that came below the horizon lies in it, only
// what the shard holds.
func (sh *Shard) PinFor(box *record.Box) *State {
	now := sh.PinCombined()
	if now.Backdated == nil || now.Backdated.NewestPut(box, manifest.NoPut) != manifest.NoPut {
		return now
	}
	now.Backdated.Unpin()
	return now.Main
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
	for _, immutable := range s.Immutable {
		parts = append(parts, immutable.Head.CountBelow)
	}
	if s.Head.Rows() > 0 {
		parts = append(parts, s.Head.CountBelow)
	}
	return parts
}
