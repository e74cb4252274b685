package node

import (
	"context"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/writes"
)

// retryEvery is how often the download of modules is retried.
const retryEvery = 5 * time.Second

// memberCatalog is the catalog of the cluster, as the registry uses it.
type memberCatalog struct{ *member.Member }

// Change implements the registry's catalog of a cluster.
func (m memberCatalog) Change(ctx context.Context, c *catalog.Change, module []byte) error {
	err := m.ChangeState(ctx, &cluster.ChangeCatalog{Change: *c, Module: module})
	if c.Remove != nil || c.Forget != nil {
		return writes.RemovedBefore(err)
	}
	return err
}

// followCatalog keeps plugins ready that the cluster has.
func (n *Node) followCatalog() {
	var ready uint64
	for {
		err := n.plugins.Apply()
		version := n.plugins.Version()
		if err == nil && version != ready {
			if err = n.plugins.Prepare(n.open); err == nil {
				ready = version
			}
		}
		var again <-chan time.Time
		if err != nil && n.open.Err() == nil {
			n.log.Warn("take the plugins of the cluster", "err", err)
			again = time.After(retryEvery)
		}
		select {
		case <-n.restocked:
		case <-again:
		case <-n.open.Done():
			return
		}
	}
}
