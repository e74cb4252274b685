package store

import (
	"runtime"
	"slices"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// pin appends the read states of the shards that can hold rows of a box, to be unpinned by the
// caller, and returns the tombstones. The two belong together: it starts again if tombstones or
// backdated puts changed in between.
func (s *Store) pin(
	box *record.Box, states []*shards.State,
) ([]*shards.State, *tombstone.Set) {
	wanted, from := slots.Owners(box, len(s.shards)), len(states) // nil for all
	for {
		tombstones, puts := s.tombstones.Load(), s.backdatedSeq.Load()
		for id, sh := range slices.Backward(s.shards) {
			if wanted == nil || wanted[id] {
				states = append(states, sh.PinFor(box))
			}
		}
		// Of a backdated put all shards show the rows, or none.
		same := s.tombstones.Load() == tombstones && s.backdatedSeq.Load() == puts
		if same && puts&1 == 0 {
			return states, tombstones
		}
		for _, state := range states[from:] {
			state.Unpin()
		}
		states = states[:from]
		runtime.Gosched() // the committer is in the midst of it
	}
}
