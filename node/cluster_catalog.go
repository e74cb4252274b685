package node

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/sdk/wire"
)

// clusterCatalog is the catalog of the cluster, as the registry uses it.
type clusterCatalog interface {
	Tell(ctx context.Context, command cluster.Command) error
	Refresh(ctx context.Context) error
	Catalog() (catalog.State, uint64)
	Module(ctx context.Context, digest string) ([]byte, error)
}

const (
	// pollEvery is how often a horizon that is waited for is polled.
	pollEvery = 50 * time.Millisecond
	// retryEvery is how often the download of modules is retried.
	retryEvery = 5 * time.Second
	// horizonWait is how long a cursor commit waits for the horizon of this node, because its
	// client may have read through another node.
	horizonWait = 2 * time.Second
)

// propose changes the catalog of the cluster, and applies the change.
func (r *registry) propose(ctx context.Context, c *catalog.Change, wasm []byte) error {
	err := r.cluster.Tell(ctx, &cluster.ChangeCatalog{Change: *c, Module: wasm})
	return errors.Join(err, r.apply())
}

// refresh reads the newest catalog of the cluster.
func (r *registry) refresh(ctx context.Context) error {
	if err := r.cluster.Refresh(ctx); err != nil {
		return err
	}
	return r.apply()
}

// apply replaces the registry's catalog by that of the cluster, and drops modules that it does not
// contain.
func (r *registry) apply() error {
	r.applying.Lock()
	defer r.applying.Unlock()
	next, version := r.cluster.Catalog()
	if version <= r.applied {
		return nil
	}
	r.applied = version
	r.mu.Lock()
	old := r.state
	r.state = next
	r.mu.Unlock()
	var gone []string
	for _, p := range old.Plugins {
		for _, v := range p.Versions {
			if !next.Refers(v.SHA256) {
				gone = append(gone, v.SHA256)
			}
		}
	}
	return r.drop(gone)
}

// useCluster starts with the last known catalog of the cluster, and removes files of other modules.
// It is called before the registry is shared.
func (r *registry) useCluster(of clusterCatalog) error {
	r.cluster = of
	return errors.Join(r.apply(), r.sweep())
}

// removedBefore returns nil for the error of a removal that found nothing: an earlier attempt, or
// another client, has removed it.
func removedBefore(err error) error {
	kind := wire.Kind(0)
	if err != nil {
		kind = toWire(err).Kind
	}
	if kind == wire.KindUnknownPlugin || kind == wire.KindNotFound {
		return nil
	}
	return err
}

// forget removes the quantity of a moid.
func (r *registry) forget(ctx context.Context, moid int32) error {
	change := &catalog.Change{Forget: &moid}
	if r.cluster == nil {
		return r.change(ctx, change, nil)
	}
	if err := r.refresh(ctx); err != nil {
		return err
	}
	known := r.clusterState()
	if err := known.Check(change); err != nil {
		return err
	}
	return removedBefore(r.change(ctx, change, nil))
}

// clusterState returns the catalog without the standard plugins.
func (r *registry) clusterState() catalog.State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state
}

// dropCursor removes a cursor of the cluster.
func dropCursor(ctx context.Context, m *member.Member, name string) error {
	if _, err := m.Cursors(ctx, name); err != nil {
		return err
	}
	return removedBefore(m.Tell(ctx, &cluster.DropCursor{Name: name}))
}

// fetch downloads a module from the cluster.
func (r *registry) fetch(ctx context.Context, digest string) ([]byte, error) {
	wasm, err := r.cluster.Module(ctx, digest)
	if err == nil {
		err = r.write(digest, wasm)
	}
	return wasm, err
}

// prepare copies the modules that are not here, and loads those of current versions. Its error is
// of modules that could not be copied.
func (n *Node) prepare(ctx context.Context) error {
	r := n.plugins
	var errs []error
	for name, p := range r.clusterState().Plugins {
		for i, version := range p.Versions {
			_, err := os.Stat(r.path(version.SHA256))
			if err != nil {
				_, err = r.fetch(ctx, version.SHA256)
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if i != p.Current {
				continue
			}
			v, err := r.use(ctx, name+"@"+version.SHA256)
			if err == nil {
				r.release(v)
			} else if ctx.Err() == nil && n.Kind(err) != wire.KindUnknownPlugin {
				n.log.Error("a plugin cannot be used", "plugin", name, "err", err)
			}
		}
	}
	return errors.Join(errs...)
}

// followCatalog keeps plugins ready that the cluster has.
func (n *Node) followCatalog() {
	var ready uint64
	for {
		err := n.plugins.apply()
		version := n.plugins.version()
		if err == nil && version != ready {
			if err = n.prepare(n.open); err == nil {
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

// stale reports whether the cluster has a newer catalogue than the one which was taken last.
func (r *registry) stale() bool {
	_, version := r.cluster.Catalog()
	return version > r.version()
}

// version is that of the catalogue which was taken last.
func (r *registry) version() uint64 {
	r.applying.Lock()
	defer r.applying.Unlock()
	return r.applied
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
