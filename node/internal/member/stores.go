package member

import (
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/store"
)

// Stores returns the stores of the groups of data that this node has a replica of, whether it may
// answer from them or not.
func (m *Member) Stores() map[cluster.GroupID]*store.Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[cluster.GroupID]*store.Store{}
	for group, h := range m.replicas {
		if h.store != nil {
			all[group] = h.store.Store()
		}
	}
	return all
}
