package store

import (
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/record"
)

// readState is the immutable list of the segments and heads of a shard. The rows of sealed
// come before those of immutable, and those before the rows of head, in acq.
type readState struct {
	sealed    []*sealedSegment
	immutable []*immutableHead // being sealed, oldest first
	head      *index.Head
	first     uint64 // log index of the first entry in head
	info      backdatedInfo

	// main and backdated are what a pair was made of, a shard and its backdated shard; nil
	// otherwise.
	main, backdated *readState

	users atomic.Int64 // the shard, while this is its present state, and scans
}

// with returns a copy that is not used yet.
func (s *readState) with(sealed []*sealedSegment, immutable []*immutableHead) *readState {
	return &readState{sealed: sealed, immutable: immutable, head: s.head, first: s.first,
		info: s.info}
}

// release ends a use of the read state; the last one ends its use of the segments and heads.
func (s *readState) release() {
	if s.users.Add(-1) > 0 {
		return
	}
	if s.main != nil {
		s.main.release()
		s.backdated.release()
		return
	}
	for _, seg := range s.sealed {
		seg.release()
	}
	s.releaseHeads()
}

func (s *readState) releaseHeads() {
	s.head.Release()
	for _, f := range s.immutable {
		f.head.Release()
	}
}

// mappings yields the files of the read state.
func (s *readState) mappings(yield func(*segment.Sealed) bool) {
	for _, seg := range s.sealed {
		if !yield(seg.file) {
			return
		}
	}
}

// isEmpty reports whether the read state holds no row.
func (s *readState) isEmpty() bool {
	return len(s.sealed)+len(s.immutable) == 0 && s.head.Rows() == 0
}

// acquire returns the present state, to be released by the caller.
func (sh *shard) acquire() *readState {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := sh.state.Load()
	now.users.Add(1)
	return now
}

// acquirePair returns what the shard and its backdated shard hold as one read state, to be released
// by the caller.
func (sh *shard) acquirePair() *readState {
	main := sh.acquire()
	if sh.backdated.state.Load().isEmpty() {
		return main
	}
	below := sh.backdated.acquire()
	pair := &readState{main: main, backdated: below, head: main.head,
		sealed:    slices.Concat(below.sealed, main.sealed),
		immutable: slices.Concat(below.immutable, main.immutable)}
	if below.head.Rows() > 0 {
		last := &immutableHead{head: below.head, info: below.info}
		pair.immutable = append([]*immutableHead{last}, pair.immutable...)
	}
	pair.users.Store(1)
	return pair
}

// acquireFor is acquirePair for a box: where no row that came below the horizon lies in it, only
// what the shard holds.
func (sh *shard) acquireFor(box *record.Box) *readState {
	now := sh.acquirePair()
	if now.backdated == nil || now.backdated.newestPut(box, manifest.NoPut) != manifest.NoPut {
		return now
	}
	now.backdated.release()
	return now.main
}

// acquire pins the read states of the shards that can hold rows of the box, and picks the
// tombstones that cover them. The two belong together: it starts again if tombstones or backdated
// puts changed in between.
func (sc *scan) acquire() {
	wanted := slots.Parts(&sc.box, len(sc.store.shards)) // nil for all
	for {
		tombstones, puts := sc.store.tombstones.Load(), sc.store.backdatedSeq.Load()
		for id, sh := range slices.Backward(sc.store.shards) {
			if wanted == nil || wanted[id] {
				sc.states = append(sc.states, sh.acquireFor(&sc.box))
			}
		}
		// Of a backdated put all shards show the rows, or none.
		same := sc.store.tombstones.Load() == tombstones && sc.store.backdatedSeq.Load() == puts
		if same && puts&1 == 0 {
			sc.pickTombstones(tombstones)
			sc.notePuts()
			return
		}
		for _, now := range sc.states {
			now.release()
		}
		sc.states = sc.states[:0]
		runtime.Gosched() // the committer is in the midst of it
	}
}

// notePuts counts a backdated put as a change of the box below the horizon.
func (sc *scan) notePuts() {
	for _, now := range sc.states {
		if now.backdated != nil {
			sc.stats.PurgedAcqNs = now.backdated.newestPut(&sc.box, sc.stats.PurgedAcqNs)
		}
	}
}
