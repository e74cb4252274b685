package registry

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Load compiles the current versions, one after another; a query that uses one that is not compiled
// yet waits only for that one. Damage is logged, and reported to queries that use the module.
func (r *Registry) Load(ctx context.Context) {
	const every = 10 * time.Second
	names := slices.Sorted(maps.Keys(r.clusterState().Plugins))
	if r.off != nil {
		if len(names) > 0 {
			r.log.Warn("uploaded plugins are kept and not run", "count", len(names), "err", r.off)
		}
		return
	}
	began := time.Now()
	told := began
	for i, name := range names {
		v, err := r.Use(ctx, name)
		switch {
		case err == nil:
			r.Unpin(v)
		case ctx.Err() != nil:
			return
		case !isUnknown(err): // not removed
			r.log.Error("a plugin cannot be used", "plugin", name, "err", err)
		}
		if time.Since(told) >= every {
			told = time.Now()
			r.log.Info("loading plugins", "count", i+1, "of", len(names))
		}
	}
	if len(names) > 0 {
		r.log.Info("plugins loaded", "count", len(names), "took", time.Since(began))
	}
}
