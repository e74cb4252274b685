package node

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// maxPlugins bounds the modules of a node: each keeps its compiled code in memory.
const maxPlugins = 1024

// PluginInfo describes a module.
type PluginInfo struct {
	Name      string          `json:"name"`
	SHA256    string          `json:"sha256"`
	Bytes     int             `json:"bytes"`
	Filter    bool            `json:"filter"`
	Aggregate bool            `json:"aggregate"`
	Standard  bool            `json:"standard"`
	Doc       json.RawMessage `json:"doc,omitempty"`
}

type loaded struct {
	info   PluginInfo
	module *wasmhost.Module
	doc    *plugin.Doc
}

// registry keeps modules by name, each in a file DIR/name.wasm.
type registry struct {
	dir  string
	host *wasmhost.Host

	mu     sync.RWMutex // guards byName
	byName map[string]*loaded

	pushing sync.Mutex // one upload at a time; taken before mu
}

const wasmSuffix = ".wasm"

func openRegistry(ctx context.Context, dir string, host *wasmhost.Host) (*registry, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	r := &registry{dir: dir, host: host, byName: map[string]*loaded{}}
	for _, s := range plugins.Standard() {
		l, err := r.load(ctx, s.Name, s.Wasm)
		if err != nil {
			return nil, err
		}
		l.info.Standard = true
		r.byName[s.Name] = l
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list plugins: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), wasmSuffix)
		if !ok || !record.ValidPluginName(name) {
			continue
		}
		wasm, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read plugin: %w", err)
		}
		if r.byName[name], err = r.load(ctx, name, wasm); err != nil {
			return nil, fmt.Errorf("plugin %s in %s: %w", name, dir, err)
		}
	}
	return r, nil
}

func (r *registry) load(ctx context.Context, name string, wasm []byte) (*loaded, error) {
	module, err := r.host.Load(ctx, wasm)
	if err != nil {
		return nil, err
	}
	digest, desc := module.Digest(), module.Describe()
	l := &loaded{module: module, info: PluginInfo{Name: name, Bytes: len(wasm),
		SHA256:    hex.EncodeToString(digest[:]),
		Filter:    desc.Kinds&plugin.KindFilter != 0,
		Aggregate: desc.Kinds&plugin.KindAggregate != 0}}
	if len(desc.Doc) == 0 {
		l.doc = &plugin.Doc{Name: name}
		return l, nil
	}
	if l.doc, err = plugin.ParseDoc(desc.Doc); err != nil {
		_ = module.Close() // nothing runs in it yet
		return nil, &wire.Error{Kind: wire.KindBadModule,
			Message: fmt.Sprintf("plugin %s: %v", name, err)}
	}
	l.info.Doc = desc.Doc
	return l, nil
}

// filter returns the module with a name, which must be a filter.
func (r *registry) filter(name string) (*loaded, error) {
	l, err := r.find(name)
	if err == nil && !l.info.Filter {
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: "filter",
			Reason: string(record.OutOfRange), Message: fmt.Sprintf(
				"plugin %q is an aggregate and no filter; run it", name)}
	}
	return l, err
}

// aggregate returns the module with a name, which must be an aggregate.
func (r *registry) aggregate(name string) (*loaded, error) {
	l, err := r.find(name)
	if err == nil && !l.info.Aggregate {
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: "aggregate",
			Reason: string(record.OutOfRange), Message: fmt.Sprintf(
				"plugin %q is a filter and no aggregate; name it as the filter", name)}
	}
	return l, err
}

func (r *registry) find(name string) (*loaded, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if l := r.byName[name]; l != nil {
		return l, nil
	}
	known := slices.Sorted(maps.Keys(r.byName))
	return nil, &wire.Error{Kind: wire.KindUnknownPlugin, Message: fmt.Sprintf(
		"no plugin is named %q; there are: %s", name, strings.Join(known, ", "))}
}

func (r *registry) list() []PluginInfo {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]PluginInfo, 0, len(r.byName))
	for _, name := range slices.Sorted(maps.Keys(r.byName)) {
		out = append(out, r.byName[name].info)
	}
	return out
}

// push checks, compiles and stores a module, then puts it in place of an earlier one. Queries that
// run go on with the earlier one.
func (r *registry) push(ctx context.Context, name string, wasm []byte) (PluginInfo, error) {
	if !record.ValidPluginName(name) {
		return PluginInfo{}, &record.InvalidError{Part: "plugin", Reason: record.OutOfRange,
			Row: -1,
			Detail: fmt.Sprintf("%q is not a name: 1 to %d of a-z, 0-9, - and _",
				name[:min(len(name), record.MaxPluginNameBytes)], record.MaxPluginNameBytes)}
	}
	r.pushing.Lock()
	defer r.pushing.Unlock()
	r.mu.RLock()
	old, count := r.byName[name], len(r.byName)
	r.mu.RUnlock()
	if old != nil && old.info.Standard {
		return PluginInfo{}, &wire.Error{Kind: wire.KindForbidden,
			Message: fmt.Sprintf("%q is a standard plugin; take another name", name)}
	}
	if old == nil && count >= maxPlugins {
		return PluginInfo{}, &wire.Error{Kind: wire.KindTooLarge,
			Message: fmt.Sprintf("%d plugins are the most that a node holds", maxPlugins)}
	}
	l, err := r.load(ctx, name, wasm)
	if err != nil {
		return PluginInfo{}, err
	}
	if err := writeDurably(filepath.Join(r.dir, name+wasmSuffix), wasm); err != nil {
		return PluginInfo{}, errors.Join(err, l.module.Close())
	}
	r.mu.Lock()
	r.byName[name] = l
	r.mu.Unlock()
	if old != nil {
		return l.info, old.module.Close()
	}
	return l.info, nil
}

func (r *registry) close() error {
	var errs []error
	for _, l := range r.byName {
		errs = append(errs, l.module.Close())
	}
	return errors.Join(errs...)
}

// writeDurably replaces a file at once and for good.
func writeDurably(name string, data []byte) error {
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(name), err)
	}
	return syncDir(filepath.Dir(name))
}

// PushPlugin stores a module under a name.
func (n *Node) PushPlugin(ctx context.Context, name string, wasm []byte) (PluginInfo, error) {
	return n.plugins.push(ctx, name, wasm)
}

// Plugins lists the modules by name.
func (n *Node) Plugins() []PluginInfo { return n.plugins.list() }
