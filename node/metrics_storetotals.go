package node

import (
	"sync"

	"github.com/pentad-db/pentad/node/store"
)

// storeTotals adds up the figures of all stores of a node. Of a store that has gone, as its replica
// moved to another node or another state took its place, it keeps the counts that were seen last:
// what counts must never go back, or who watches it takes it for a restart.
type storeTotals struct {
	mu   sync.Mutex
	last map[*store.Store]store.Counts // guarded by mu
	gone store.Counts                  // guarded by mu
}

func (t *storeTotals) sum(list func() []*store.Store) (all store.Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stores := list() // under the lock: who asks at the same time would miss what came meanwhile
	now := make(map[*store.Store]store.Counts, len(stores))
	for _, s := range stores {
		stats := s.Stats()
		now[s] = stats.Counts
		all.Add(&stats)
	}
	for s, counts := range t.last {
		if _, there := now[s]; !there {
			t.gone.Add(&counts)
		}
	}
	t.last = now
	all.Counts.Add(&t.gone)
	return all
}

// stores returns those of all replicas here, and the node's own.
func (n *Node) stores() []*store.Store {
	all := []*store.Store{n.store}
	if m := n.member.Load(); m != nil {
		for _, s := range m.Stores() {
			all = append(all, s)
		}
	}
	return all
}
