package node

import (
	"sync"

	"github.com/pentad-db/pentad/node/store"
)

// storeTotals sums the counters of all stores of a node. It keeps the last counters of stores that
// were closed, because their replica moved away or was replaced: a counter that goes back looks
// like a restart to monitoring.
type storeTotals struct {
	mu   sync.Mutex
	last map[*store.Store]store.Counts // guarded by mu
	gone store.Counts                  // guarded by mu
}

func (t *storeTotals) sum(list func() []*store.Store) (all store.Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stores := list() // under the lock, as a concurrent call would miss a new store
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
