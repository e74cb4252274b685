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

// shared is what a registry asks of its cluster.
type shared interface {
	Tell(ctx context.Context, command cluster.Command) error
	Refresh(ctx context.Context) error
	Catalog() (catalog.State, uint64)
	Module(ctx context.Context, digest string) ([]byte, error)
}

const (
	// lookEvery is how often one who waits for the horizon looks at it.
	lookEvery = 50 * time.Millisecond
	// retryEvery is how often it tries again to get modules that it could not get.
	retryEvery = 5 * time.Second
	// aheadFor is how long a commit of a cursor waits for the horizon of this node, when its reader
	// may have read through another one.
	aheadFor = 2 * time.Second
)

// tell has the cluster change its catalogue, and takes that.
func (r *registry) tell(ctx context.Context, c *catalog.Change, wasm []byte) error {
	err := r.shared.Tell(ctx, &cluster.ChangeCatalog{Change: *c, Module: wasm})
	return errors.Join(err, r.take())
}

// refresh asks the cluster for what this node has not heard yet.
func (r *registry) refresh(ctx context.Context) error {
	if err := r.shared.Refresh(ctx); err != nil {
		return err
	}
	return r.take()
}

// take makes the catalogue that of the cluster, and drops the modules that this does not name.
func (r *registry) take() error {
	r.taking.Lock()
	defer r.taking.Unlock()
	next, version := r.shared.Catalog()
	if version <= r.taken {
		return nil
	}
	r.taken = version
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

// join begins with what the cluster was known to have, and removes files of anything else. Nobody
// else has the registry yet.
func (r *registry) join(of shared) error {
	r.shared = of
	return errors.Join(r.take(), r.sweep())
}

// gone is the outcome of a removal of what was there: whoever removed it meanwhile, perhaps an
// earlier attempt, it is gone.
func gone(err error) error {
	kind := wire.Kind(0)
	if err != nil {
		kind = toWire(err).Kind
	}
	if kind == wire.KindUnknownPlugin || kind == wire.KindNotFound {
		return nil
	}
	return err
}

// forget takes back the quantity of a moid.
func (r *registry) forget(ctx context.Context, moid int32) error {
	change := &catalog.Change{Forget: &moid}
	if r.shared == nil {
		return r.change(ctx, change, nil)
	}
	if err := r.refresh(ctx); err != nil {
		return err
	}
	known := r.known()
	if err := known.Check(change); err != nil {
		return err
	}
	return gone(r.change(ctx, change, nil))
}

// known returns the catalogue but for the standard plugins.
func (r *registry) known() catalog.State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state
}

// dropCursor forgets a cursor of the cluster.
func dropCursor(ctx context.Context, m *member.Member, name string) error {
	if _, err := m.Cursors(ctx, name); err != nil {
		return err
	}
	return gone(m.Tell(ctx, &cluster.DropCursor{Name: name}))
}

// fetch copies a module of the cluster.
func (r *registry) fetch(ctx context.Context, digest string) ([]byte, error) {
	wasm, err := r.shared.Module(ctx, digest)
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
	for name, p := range r.known().Plugins {
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
		err := n.plugins.take()
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
	_, version := r.shared.Catalog()
	return version > r.version()
}

// version is that of the catalogue which was taken last.
func (r *registry) version() uint64 {
	r.taking.Lock()
	defer r.taking.Unlock()
	return r.taken
}

// horizonAfter waits a little until the horizon has passed an acq.
func (n *Node) horizonAfter(ctx context.Context, acqNs int64) (horizon int64, err error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	timeout := time.After(aheadFor)
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
