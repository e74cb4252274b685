package store

import (
	"runtime"
	"slices"

	"github.com/pentad-db/pentad/node/internal/slots"
)

// acquire pins the read states of the shards that can hold rows of the box, and picks the
// tombstones that cover them. The two belong together: it starts again if tombstones or backdated
// puts changed in between.
func (sc *scan) acquire() {
	wanted := slots.Parts(&sc.box, len(sc.store.shards)) // nil for all
	for {
		tombstones, puts := sc.store.tombstones.Load(), sc.store.backdatedSeq.Load()
		for id, sh := range slices.Backward(sc.store.shards) {
			if wanted == nil || wanted[id] {
				sc.states = append(sc.states, sh.AcquireFor(&sc.box))
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
			now.Release()
		}
		sc.states = sc.states[:0]
		runtime.Gosched() // the committer is in the midst of it
	}
}

// notePuts counts a backdated put as a change of the box below the horizon.
func (sc *scan) notePuts() {
	for _, now := range sc.states {
		if now.Backdated != nil {
			sc.stats.PurgedAcqNs = now.Backdated.NewestPut(&sc.box, sc.stats.PurgedAcqNs)
		}
	}
}
