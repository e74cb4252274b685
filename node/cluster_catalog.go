package node

import (
	"context"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/commands"
	"github.com/pentad-db/pentad/node/internal/member"
)

const (
	// pollEvery is how often a horizon that is waited for is polled.
	pollEvery = 50 * time.Millisecond
	// retryEvery is how often the download of modules is retried.
	retryEvery = 5 * time.Second
	// horizonWait is how long a cursor commit waits for the horizon of this node, because its
	// client may have read through another node.
	horizonWait = 2 * time.Second
)

// memberCatalog is the catalog of the cluster, as the registry uses it.
type memberCatalog struct{ *member.Member }

// Change implements the registry's catalog of a cluster.
func (m memberCatalog) Change(ctx context.Context, c *catalog.Change, module []byte) error {
	err := m.Tell(ctx, &cluster.ChangeCatalog{Change: *c, Module: module})
	if c.Remove != nil || c.Forget != nil {
		return commands.RemovedBefore(err)
	}
	return err
}

// dropCursor removes a cursor of the cluster.
func dropCursor(ctx context.Context, m *member.Member, name string) error {
	if _, err := m.Cursors(ctx, name); err != nil {
		return err
	}
	return commands.RemovedBefore(m.Tell(ctx, &cluster.DropCursor{Name: name}))
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

// horizonAfter waits a little until the horizon has passed an acq.
func (n *Node) horizonAfter(ctx context.Context, acqNs int64) (horizon int64, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	timeout := time.After(horizonWait)
	for {
		if horizon, err = n.Horizon(ctx); err != nil || horizon >= acqNs {
			return horizon, err
		}
		select {
		case <-tick.C:
		case <-timeout:
			return horizon, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
