package node

import (
	"context"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/wasmhost"
)

const (
	mostPluginBytes = 1 << 30 // memory of all instances of plugins
	// What one module built by Go may need: with less, no query that uses it succeeds.
	leastPluginBytes = 64 << 20
)

func pluginBytes(total memory.Total) int64 {
	return max(leastPluginBytes, total.Part(4, mostPluginBytes))
}

// openHosts starts the plugin hosts, whose compiled code is kept below dir. A node that is alone
// may do without: then there are none, and off says why.
func (n *Node) openHosts(ctx context.Context, dir string, alone bool) (off string, err error) {
	n.nativeWork = wasmhost.NewNativeWork()
	if n.opt.NoPlugins {
		return "it was opened with Options.NoPlugins", nil
	}
	if err := wasmhost.Supported(ctx); err != nil && alone {
		n.log.Warn("plugins are not available", "err", err)
		return err.Error(), nil
	}
	n.host, err = wasmhost.New(ctx, wasmhost.Options{CacheDir: filepath.Join(dir, "cache"),
		GoProfile: true, TotalBytes: pluginBytes(memory.Total(n.opt.MemoryBytes)),
		NativeWork: n.nativeWork})
	if err != nil {
		return "", err
	}
	n.adHocHost, err = wasmhost.New(ctx, wasmhost.Options{GoProfile: true, ShareWith: n.host})
	return "", err
}
