package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// standardOwner is the owner of built-in plugins, which cannot be removed.
const standardOwner = "pentad"

// loaded is a compiled module. It is closed when no name refers to it and it has no uses.
type loaded struct {
	module     *wasmhost.Module
	doc        *plugin.Doc
	parts      segment.Columns // that the module looks at
	adHocBytes int             // bytes of one that came with a query, 0 of the node's
	uses       int             // guarded by registry.mu, like gone
	gone       bool            // no name refers to it any more
}

// pluginVersion is a module under a name, which may be used until it is released.
type pluginVersion struct {
	*loaded
	catalog.Version
	name    string
	current bool
}

// ref names exactly this version.
func (v *pluginVersion) ref() string { return v.name + "@" + v.SHA256 }

func (v *pluginVersion) is(kind uint32) bool { return v.module.Describe().Kinds&kind != 0 }

// registry keeps modules: which there are in a catalogue, each in a file DIR/SHA256.wasm. In a
// cluster the catalogue is that of the cluster, and the files are copies.
type registry struct {
	dir       string
	host      *wasmhost.Host
	adHocHost *wasmhost.Host // for modules that come with a query; it writes no code to disk

	changing sync.Mutex     // one change at a time; taken before mu
	file     *catalog.File  // nil in a cluster
	cluster  clusterCatalog // nil else; set before anybody else has the registry

	applying sync.Mutex // as changing, of catalogues that come from the cluster; taken after it
	applied  uint64     // version of the last one

	writing sync.Mutex // held while a module is written

	mu       sync.RWMutex // guards all below
	state    catalog.State
	standard catalog.State
	modules  map[string]*loaded // by digest: those that were used
	broken   map[string]error   // by digest: errors of the last attempt to load
	adHoc    adHocModules
}

// openRegistry loads the built-in modules; load loads the others. Damage does not keep the
// node from starting.
func openRegistry(
	ctx context.Context, dir string, host, lender *wasmhost.Host, alone bool, log *slog.Logger,
) (*registry, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	r := &registry{dir: dir, host: host, adHocHost: lender, modules: map[string]*loaded{},
		broken: map[string]error{}, adHoc: adHocModules{modules: map[string]*loaded{}}}
	if err := r.openStandard(ctx); err != nil {
		return nil, err
	}
	if !alone {
		return r, nil
	}
	var err error
	if r.file, err = catalog.Open(dir); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.state = r.file.State
	for _, damage := range r.file.Damage {
		log.Error("damage in the catalogue of plugins", "err", damage)
	}
	if err := r.sweep(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// load compiles the current versions, one after another; a query that uses one that is not compiled
// yet waits only for that one. Damage is logged, and reported to queries that use the module.
func (r *registry) load(ctx context.Context, log *slog.Logger) {
	const every = 10 * time.Second
	names := slices.Sorted(maps.Keys(r.clusterState().Plugins))
	began := time.Now()
	told := began
	for i, name := range names {
		v, err := r.use(ctx, name)
		var remote *wire.Error
		switch {
		case err == nil:
			r.release(v)
		case ctx.Err() != nil:
			return
		case !errors.As(err, &remote) || remote.Kind != wire.KindUnknownPlugin: // not removed
			log.Error("a plugin cannot be used", "plugin", name, "err", err)
		}
		if time.Since(told) >= every {
			told = time.Now()
			log.Info("loading plugins", "count", i+1, "of", len(names))
		}
	}
	if len(names) > 0 {
		log.Info("plugins loaded", "count", len(names), "took", time.Since(began))
	}
}

func (r *registry) openStandard(ctx context.Context) error {
	for _, s := range plugins.Standard() {
		l, err := compile(ctx, r.host, s.Name, s.Wasm)
		if err != nil {
			return errors.Join(err, r.close())
		}
		digest := digestOf(s.Wasm)
		r.modules[digest] = l
		err = r.standard.Apply(&catalog.Change{Push: &catalog.Push{Name: s.Name,
			Version: catalog.Version{SHA256: digest, Bytes: int64(len(s.Wasm)),
				Owner: standardOwner, Description: l.doc.About}}})
		if err != nil {
			return fmt.Errorf("standard plugin %s: %w", s.Name, err)
		}
	}
	return nil
}

func digestOf(wasm []byte) string {
	digest := sha256.Sum256(wasm)
	return hex.EncodeToString(digest[:])
}

// sweep removes files that an interrupted upload or removal left behind. Nothing is compiled
// concurrently.
func (r *registry) sweep() error {
	if r.file != nil && (r.file.Unlisted || len(r.file.Damage) > 0) {
		return nil // entries of modules may have been lost
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("list plugins: %w", err)
	}
	for _, e := range entries {
		digest, isModule := strings.CutSuffix(e.Name(), catalog.ModuleSuffix)
		if isModule && r.state.Refers(digest) || !isModule && !strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		if err := os.Remove(filepath.Join(r.dir, e.Name())); err != nil {
			return fmt.Errorf("remove leftover: %w", err)
		}
	}
	return r.host.DiscardOthers(func(digest string) bool {
		return r.state.Refers(digest) || r.standard.Refers(digest)
	})
}

func (r *registry) path(digest string) string {
	return filepath.Join(r.dir, digest+catalog.ModuleSuffix)
}

func (r *registry) write(digest string, wasm []byte) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	return durable.ReplaceFile(r.path(digest), wasm)
}

// compile makes a module ready to be used under a name.
func compile(
	ctx context.Context, host *wasmhost.Host, name string, wasm []byte,
) (*loaded, error) {
	module, err := host.Load(ctx, wasm)
	if err != nil {
		return nil, err
	}
	desc := module.Describe()
	l := &loaded{module: module, parts: partsOf(desc.Need),
		doc: &plugin.Doc{Name: module.Name()}}
	if len(desc.Doc) > 0 {
		if l.doc, err = plugin.ParseDoc(desc.Doc); err != nil {
			_ = module.Close() // nothing runs in it yet
			return nil, &wire.Error{Kind: wire.KindBadModule,
				Message: fmt.Sprintf("plugin %s: %v", name, err)}
		}
	}
	return l, nil
}

// resolve finds a version by its name, or name@digest. Hold mu.
func (r *registry) resolve(ref string) (*pluginVersion, error) {
	name, digest, ok := record.SplitPluginRef(ref)
	p, known := r.plugin(name)
	if !ok || !known {
		return nil, &wire.Error{Kind: wire.KindUnknownPlugin, Message: fmt.Sprintf(
			"no plugin is named %q; there are: %s", params.Clip(ref), strings.Join(r.names(),
				", "))}
	}
	at := p.Current
	if digest != "" {
		found := 0
		for i := range p.Versions {
			if strings.HasPrefix(p.Versions[i].SHA256, digest) {
				at = i
				found++
			}
		}
		if found != 1 {
			return nil, &wire.Error{Kind: wire.KindUnknownPlugin, Message: fmt.Sprintf(
				"%d of the %d versions of plugin %q begin with %s; pentad plugin show %s lists "+
					"them", found, len(p.Versions), name, digest, name)}
		}
	}
	return &pluginVersion{name: name, Version: p.Versions[at], current: at == p.Current}, nil
}

// plugin returns a plugin by its name. Hold mu.
func (r *registry) plugin(name string) (catalog.Plugin, bool) {
	p, ok := r.standard.Plugins[name]
	if !ok {
		p, ok = r.state.Plugins[name]
	}
	return p, ok
}

// names returns all names in order. Hold mu.
func (r *registry) names() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, s := range []catalog.State{r.standard, r.state} {
			for name := range maps.Keys(s.Plugins) {
				if !yield(name) {
					return
				}
			}
		}
	})
}

// use returns a version by its name, or name@digest, to be used until release. The first use after
// a start reads the module of a version that is not current.
func (r *registry) use(ctx context.Context, ref string) (*pluginVersion, error) {
	v, err := r.lookUp(ref)
	if err != nil && r.cluster != nil { // another node may have heard of it
		if err := r.refresh(ctx); err != nil {
			return nil, err
		}
		v, err = r.lookUp(ref)
	}
	if err != nil || v.loaded != nil {
		return v, err
	}
	l, err := r.read(ctx, v)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, e := r.resolve(v.ref()); e != nil { // it was removed meanwhile
		if err == nil {
			err = l.module.Close()
		}
		return nil, errors.Join(e, err)
	}
	if err != nil {
		if ctx.Err() == nil {
			r.broken[v.SHA256] = err
		}
		return nil, err
	}
	v.loaded = r.adopt(v.SHA256, l)
	v.uses++
	return v, nil
}

// lookUp resolves a version, and begins a use of its module if that is loaded.
func (r *registry) lookUp(ref string) (*pluginVersion, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := r.resolve(ref)
	if err == nil {
		if v.loaded = r.modules[v.SHA256]; v.loaded != nil {
			v.uses++
		}
	}
	return v, err
}

// adopt takes a module in, unless it is there already, and returns the one that is. Hold mu.
func (r *registry) adopt(digest string, l *loaded) *loaded {
	delete(r.broken, digest)
	if known := r.modules[digest]; known != nil {
		_ = l.module.Close() // another reference to the same code
		return known
	}
	r.modules[digest] = l
	return l
}

// release ends a use.
func (r *registry) release(v *pluginVersion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch v.uses--; {
	case v.uses > 0:
	case v.adHocBytes > 0:
		r.adHoc.release(v.SHA256, v.loaded)
	case v.gone:
		_ = v.module.Close() // frees memory only
	}
}

// read loads the module of a version from its file.
func (r *registry) read(ctx context.Context, v *pluginVersion) (*loaded, error) {
	wasm, err := r.readModule(v.SHA256)
	if r.cluster != nil && err != nil {
		if wasm, err = r.fetch(ctx, v.SHA256); wasm != nil {
			err = nil // it can be run also where no copy of it can be kept
		}
	}
	if errors.Is(err, errModule) {
		return nil, damagedModule(v.name, v.SHA256, err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("read plugin: %w", err)
	}
	return compile(ctx, r.host, v.name, wasm)
}

// drop drops modules that no name refers to any more, and removes their files and what these
// compiled to. Hold changing.
func (r *registry) drop(digests []string) error {
	var errs []error
	for _, digest := range digests {
		r.mu.Lock()
		named := r.state.Refers(digest)
		l := r.modules[digest]
		if l != nil && !named && !r.standard.Refers(digest) {
			delete(r.modules, digest)
			if l.gone = true; l.uses == 0 {
				errs = append(errs, l.module.Close())
			}
		}
		if !named {
			delete(r.broken, digest)
		}
		r.mu.Unlock()
		if named {
			continue
		}
		if code, err := hex.DecodeString(digest); err == nil && !r.standard.Refers(digest) {
			errs = append(errs, r.host.Discard([32]byte(code)))
		}
		if err := os.Remove(r.path(digest)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove module: %w", err))
		}
	}
	return errors.Join(errs...)
}

// copyTo copies the catalogue and its modules into a new directory; what they compile to is made
// again.
func (r *registry) copyTo(ctx context.Context, dir string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("copy plugins: %w", err)
	}
	state := r.clusterState()
	for _, p := range state.Plugins {
		for i := range p.Versions {
			wasm, err := os.ReadFile(r.path(p.Versions[i].SHA256))
			if r.cluster != nil && (err != nil || digestOf(wasm) != p.Versions[i].SHA256) {
				wasm, err = r.fetch(ctx, p.Versions[i].SHA256) // a copy is as good as it can be
			}
			if errors.Is(err, os.ErrNotExist) {
				continue // damage that the copy reports as the original does
			}
			name := filepath.Base(r.path(p.Versions[i].SHA256))
			if err == nil {
				err = durable.ReplaceFile(filepath.Join(dir, name), wasm)
			}
			if err != nil {
				return fmt.Errorf("copy plugins: %w", err)
			}
		}
	}
	of := r.file
	if of == nil {
		of = &catalog.File{State: state}
	}
	if err := of.CopyTo(dir); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

func (r *registry) close() error {
	r.changing.Lock()
	defer r.changing.Unlock()
	var errs []error
	if r.file != nil {
		errs = append(errs, r.file.Close())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.modules {
		errs = append(errs, l.module.Close())
	}
	return errors.Join(errs...)
}

// missed notes that the catalogue was not there, in a directory that holds data.
func (r *registry) missed(holds bool, log *slog.Logger) {
	if r.file.Made && holds && len(r.file.Damage) == 0 {
		text := catalog.Name + " is missing, in a directory with records: if there were plugins " +
			"or quantities, they are lost"
		r.file.Damage = append(r.file.Damage, text)
		log.Error("damage in the catalogue of plugins", "err", text)
	}
}

// damage returns what could not be read of the catalog.
func (r *registry) damage() []string {
	if r.file == nil {
		return nil
	}
	return r.file.Damage
}

// problems returns the problems of modules.
func (r *registry) problems() []health.Problem {
	var all []health.Problem
	if r.file != nil && r.file.Failure() != nil {
		all = append(all, health.Problem{Code: "catalogue_failed", Restart: true,
			Message: r.file.Failure().Error(),
			Advice: "no plugin or quantity can be changed; find out from the kernel's log what " +
				"is wrong with the disk, then start the process again"})
	}
	if n := r.count().damaged; n > 0 {
		all = append(all, health.Problem{Code: "plugins_damaged", Message: r.damaged(n),
			Advice: "pentad plugin ls names modules; push these again, and declare lost " +
				"quantities again: pentad quantity set"})
	}
	return all
}

// damaged describes n damaged modules.
func (r *registry) damaged(n int) string {
	text := fmt.Sprintf("%d modules or lines of the catalogue cannot be read", n)
	if lines := r.damage(); len(lines) > 0 {
		text += ": " + lines[0]
	}
	return text
}

// pluginCounts are figures for metrics.
type pluginCounts struct{ names, versions, damaged int }

func (r *registry) count() pluginCounts {
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := pluginCounts{names: len(r.standard.Plugins) + len(r.state.Plugins),
		damaged: len(r.broken) + len(r.damage())}
	for _, p := range r.state.Plugins {
		c.versions += len(p.Versions)
	}
	return c
}
