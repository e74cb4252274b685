package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/member"
)

// openMember takes the node's place in its cluster.
func (n *Node) openMember(ctx context.Context) error {
	n.restocked = make(chan struct{}, 1)
	config := n.opt.Cluster
	config.HTTPListen = n.server.Addr().String()
	m, err := member.Open(ctx, member.Options{Dir: n.opt.Dir, Cluster: config, Store: n.opt.Store,
		Log: n.log, Fail: n.opt.Fail, MemoryBytes: n.opt.MemoryBytes, Changed: n.updateRoutes,
		Passed: n.engine.Merged.Pass})
	if err != nil {
		return err
	}
	err = n.plugins.UseCluster(memberCatalog{m})
	n.engine.Join(m)
	n.member.Store(m) // from here on updateRoutes uses it
	if err != nil {
		return err
	}
	n.wg.Go(n.followCatalog)
	n.wg.Go(n.engine.CatchUp)
	return nil
}

// updateRoutes tells the engine which nodes hold which groups, and whether plugins came.
func (n *Node) updateRoutes() {
	m := n.member.Load()
	if m == nil {
		return
	}
	n.engine.Route(m)
	if n.plugins.Stale() {
		poke(n.restocked)
	}
}

// poke wakes the goroutine that receives from a channel with a buffer of one.
func poke(waits chan struct{}) {
	select {
	case waits <- struct{}{}:
	default:
	}
}
