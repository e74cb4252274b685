package registry

import (
	"context"
	"errors"
	"os"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Catalog is the catalog of a cluster.
type Catalog interface {
	// Change proposes a change; a push has its module. A removal of what is not there is none.
	Change(ctx context.Context, c *catalog.Change, module []byte) error
	// Refresh waits for the newest catalog.
	Refresh(ctx context.Context) error
	// Catalog returns the last known catalog and its version.
	Catalog() (catalog.State, uint64)
	// Module downloads a module.
	Module(ctx context.Context, digest string) ([]byte, error)
}

// propose changes the catalog of the cluster, and applies the change.
func (r *Registry) propose(ctx context.Context, c *catalog.Change, wasm []byte) error {
	err := r.cluster.Change(ctx, c, wasm)
	return errors.Join(err, r.Apply())
}

// Refresh reads the newest catalog of the cluster, if the node has one: another node may have heard
// of a change first.
func (r *Registry) Refresh(ctx context.Context) error {
	if r.cluster == nil {
		return nil
	}
	return r.refresh(ctx)
}

// refresh is Refresh of a node of a cluster.
func (r *Registry) refresh(ctx context.Context) error {
	if err := r.cluster.Refresh(ctx); err != nil {
		return err
	}
	return r.Apply()
}

// Apply replaces the registry's catalog by that of the cluster, and drops modules that it does not
// contain.
func (r *Registry) Apply() error {
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

// UseCluster starts with the last known catalog of the cluster, and removes files of other modules.
// It is called before the registry is shared.
func (r *Registry) UseCluster(of Catalog) error {
	r.cluster = of
	return errors.Join(r.Apply(), r.sweep())
}

// clusterState returns the catalog without the standard plugins.
func (r *Registry) clusterState() catalog.State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state
}

// fetch downloads a module from the cluster.
func (r *Registry) fetch(ctx context.Context, digest string) ([]byte, error) {
	wasm, err := r.cluster.Module(ctx, digest)
	if err == nil {
		err = r.write(digest, wasm)
	}
	return wasm, err
}

// Prepare copies the modules that are not here, and loads those of current versions. Its error is
// of modules that could not be copied; others are logged.
func (r *Registry) Prepare(ctx context.Context) error {
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
			v, err := r.Use(ctx, name+"@"+version.SHA256)
			if err == nil {
				r.Unpin(v)
			} else if ctx.Err() == nil && !isUnknown(err) {
				r.log.Error("a plugin cannot be used", "plugin", name, "err", err)
			}
		}
	}
	return errors.Join(errs...)
}

// Stale reports whether the cluster has a newer catalogue than the one which was taken last.
func (r *Registry) Stale() bool {
	_, version := r.cluster.Catalog()
	return version > r.Version()
}

// Version is that of the catalogue which was taken last.
func (r *Registry) Version() uint64 {
	r.applying.Lock()
	defer r.applying.Unlock()
	return r.applied
}

// isUnknown reports whether an error says that there is no such plugin.
func isUnknown(err error) bool {
	var known *wire.Error
	return errors.As(err, &known) && known.Kind == wire.KindUnknownPlugin
}
