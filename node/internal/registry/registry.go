// Package registry keeps the plugins of a node: modules in files, compiled when they are used,
// under the names of a catalog; and for a while those that queries bring along. It knows nothing
// of queries, rows or how a cluster agrees: a [Catalog] is given to it.
//
// Its main type is [Registry], which many goroutines may use; it starts none.
package registry

import (
	"cmp"
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

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// StandardOwner is the owner of built-in plugins, which cannot be removed.
const StandardOwner = "pentad"

// loaded is a compiled module. It is closed when no name refers to it and it has no uses.
type loaded struct {
	Module     *wasmhost.Module
	Doc        *plugin.Doc
	Columns    segment.Columns // that the module looks at
	adHocBytes int             // bytes of one that came with a query, 0 of the node's
	uses       int             // guarded by Registry.mu, like gone
	gone       bool            // no name refers to it any more
}

// Version is a module under a name, which may be used until it is released. What [Registry.Use]
// returns has a Module, its Doc, and the Columns that the module reads.
type Version struct {
	*loaded
	catalog.Version
	Name    string
	current bool
}

// Ref names exactly this version.
func (v *Version) Ref() string { return v.Name + "@" + v.SHA256 }

// LinksPredecessors reports whether the module links states with their predecessors:
// plugin.FlagLinksPredecessors.
func (v *Version) LinksPredecessors() bool {
	return v.Module.Describe().Flags&plugin.FlagLinksPredecessors != 0
}

// StateBytes returns the size of its states, 0 if sizes vary.
func (v *Version) StateBytes() int {
	d := v.Module.Describe()
	if d.Flags&plugin.FlagGrows != 0 {
		return 0
	}
	return int(d.StateSize)
}

func (v *Version) is(kind uint32) bool { return v.Module.Describe().Kinds&kind != 0 }

// Registry keeps modules: which there are in a catalogue, each in a file DIR/SHA256.wasm. In a
// cluster the catalogue is that of the cluster, and the files are copies.
type Registry struct {
	dir       string
	off       error // why no plugin is run; nil: they are
	host      *wasmhost.Host
	adHocHost *wasmhost.Host // see Options
	log       *slog.Logger
	maxGroups int // see Options

	changing sync.Mutex    // one change at a time; taken before mu
	file     *catalog.File // nil in a cluster
	cluster  Catalog       // nil else; set before anybody else has the registry

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

// Options of a registry; all are required but Off, and without plugins the hosts.
type Options struct {
	Dir string // of the catalog and the modules; created when missing
	// Off says why no plugin is run, e.g. that an option excludes them; "" for those that are.
	// There are no built-in ones then; uploaded ones stay in the catalog.
	Off       string
	Host      *wasmhost.Host // of modules that are kept; nil if Off
	AdHocHost *wasmhost.Host // of modules that come with a query; it writes no code to disk
	InCluster bool           // the catalog is that of a cluster, see UseCluster
	Log       *slog.Logger
	MaxGroups int // groups of one aggregate at most, which descriptions of plugins name
}

// Open loads the built-in modules; [Registry.Load] loads the others. Damage is logged, and does not
// keep the node from starting. The registry must be closed.
func Open(ctx context.Context, opt Options) (*Registry, error) {
	if err := os.MkdirAll(opt.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	r := &Registry{dir: opt.Dir, host: opt.Host, adHocHost: opt.AdHocHost, log: opt.Log,
		maxGroups: opt.MaxGroups,
		modules:   map[string]*loaded{}, broken: map[string]error{},
		adHoc: adHocModules{modules: map[string]*loaded{}}}
	if opt.Off != "" {
		r.off = &wire.Error{Kind: wire.KindForbidden,
			Message: "this node runs no plugins: " + opt.Off}
	} else if err := r.openStandard(ctx); err != nil {
		return nil, err
	}
	if opt.InCluster {
		return r, nil
	}
	var err error
	if r.file, err = catalog.Open(opt.Dir); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.state = r.file.State
	for _, damage := range r.file.Damage {
		r.log.Error("damage in the catalogue of plugins", "err", damage)
	}
	if err := r.sweep(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Registry) openStandard(ctx context.Context) error {
	for _, s := range plugins.Standard() {
		l, err := compile(ctx, r.host, s.Name, s.Wasm)
		if err != nil {
			return errors.Join(err, r.Close())
		}
		digest := Digest(s.Wasm)
		r.modules[digest] = l
		err = r.standard.Apply(&catalog.Change{Push: &catalog.Push{Name: s.Name,
			Version: catalog.Version{SHA256: digest, Bytes: int64(len(s.Wasm)),
				Owner: StandardOwner, Description: l.Doc.About}}})
		if err != nil {
			return fmt.Errorf("standard plugin %s: %w", s.Name, err)
		}
	}
	return nil
}

// Digest returns the SHA-256 of a module in hex, by which it is known.
func Digest(wasm []byte) string {
	digest := sha256.Sum256(wasm)
	return hex.EncodeToString(digest[:])
}

// sweep removes files that an interrupted upload or removal left behind. Nothing is compiled
// concurrently.
func (r *Registry) sweep() error {
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
	if r.host == nil {
		return nil
	}
	return r.host.DiscardOthers(func(digest string) bool {
		return r.state.Refers(digest) || r.standard.Refers(digest)
	})
}

// clipped is a text of a client in a message.
func clipped(s string) string { return strings.ToValidUTF8(excerpt.Of(s, 80), "?") }

func (r *Registry) path(digest string) string {
	return filepath.Join(r.dir, digest+catalog.ModuleSuffix)
}

func (r *Registry) write(digest string, wasm []byte) error {
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
	l := &loaded{Module: module, Columns: columnsOf(desc.Need),
		Doc: &plugin.Doc{Name: module.Name()}}
	if len(desc.Doc) > 0 {
		if l.Doc, err = plugin.ParseDoc(desc.Doc); err != nil {
			_ = module.Close() // nothing runs in it yet
			return nil, &wire.Error{Kind: wire.KindBadModule,
				Message: fmt.Sprintf("plugin %s: %v", name, err)}
		}
	}
	return l, nil
}

// columnsOf returns the parts of rows that a module with these needs reads.
func columnsOf(need uint32) (parts segment.Columns) {
	for bit, part := range map[uint32]segment.Columns{
		plugin.NeedCID: 1 << record.CID, plugin.NeedMID: 1 << record.MID,
		plugin.NeedMOID: 1 << record.MOID, plugin.NeedCap: 1 << record.Cap,
		plugin.NeedAcq: 1 << record.Acq, plugin.NeedOffsets: segment.Payloads,
		plugin.NeedData: segment.Payloads,
	} {
		if need&bit != 0 {
			parts |= part
		}
	}
	if need&plugin.NeedSeries != 0 { // the host makes columns of them where the module gets these
		parts = parts&^(1<<record.CID|1<<record.MID|1<<record.MOID) | segment.SeriesRuns
	}
	return parts
}

// version finds a version by its name, or name@digest. Hold mu.
func (r *Registry) version(ref string) (*Version, error) {
	name, digest, ok := record.SplitPluginRef(ref)
	p, known := r.plugin(name)
	if !ok || !known {
		return nil, &wire.Error{Kind: wire.KindUnknownPlugin, Message: fmt.Sprintf(
			"no plugin is named %q%s", clipped(ref), cmp.Or(excerpt.DidYouMean(name, r.names()),
				"; pentad plugin ls and GET /v1/plugins list them"))}
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
	return &Version{Name: name, Version: p.Versions[at], current: at == p.Current}, nil
}

// plugin returns a plugin by its name. Hold mu.
func (r *Registry) plugin(name string) (catalog.Plugin, bool) {
	p, ok := r.standard.Plugins[name]
	if !ok {
		p, ok = r.state.Plugins[name]
	}
	return p, ok
}

// names returns all names in order. Hold mu.
func (r *Registry) names() []string {
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

// Use returns a version by its name, or name@digest, to be used until Release. The first use after
// a start reads the module of a version that is not current.
func (r *Registry) Use(ctx context.Context, ref string) (*Version, error) {
	if r.off != nil {
		return nil, r.off
	}
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
	if _, e := r.version(v.Ref()); e != nil { // it was removed meanwhile
		if err == nil {
			err = l.Module.Close()
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

// lookUp finds a version, and begins a use of its module if that is loaded.
func (r *Registry) lookUp(ref string) (*Version, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := r.version(ref)
	if err == nil {
		if v.loaded = r.modules[v.SHA256]; v.loaded != nil {
			v.uses++
		}
	}
	return v, err
}

// adopt takes a module in, unless it is there already, and returns the one that is. Hold mu.
func (r *Registry) adopt(digest string, l *loaded) *loaded {
	delete(r.broken, digest)
	if known := r.modules[digest]; known != nil {
		_ = l.Module.Close() // another reference to the same code
		return known
	}
	r.modules[digest] = l
	return l
}

// Unpin ends a use.
func (r *Registry) Unpin(v *Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch v.uses--; {
	case v.uses > 0:
	case v.adHocBytes > 0:
		r.adHoc.unpin(v.SHA256, v.loaded)
	case v.gone:
		_ = v.Module.Close() // frees memory only
	}
}

// read loads the module of a version from its file.
func (r *Registry) read(ctx context.Context, v *Version) (*loaded, error) {
	wasm, err := r.readModule(v.SHA256)
	if r.cluster != nil && err != nil {
		if wasm, err = r.fetch(ctx, v.SHA256); wasm != nil {
			err = nil // it can be run also where no copy of it can be kept
		}
	}
	if errors.Is(err, errModule) {
		return nil, damagedModule(v.Name, v.SHA256, err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("read plugin: %w", err)
	}
	return compile(ctx, r.host, v.Name, wasm)
}

// drop drops modules that no name refers to any more, and removes their files and what these
// compiled to. Hold changing.
func (r *Registry) drop(digests []string) error {
	var errs []error
	for _, digest := range digests {
		r.mu.Lock()
		named := r.state.Refers(digest)
		l := r.modules[digest]
		if l != nil && !named && !r.standard.Refers(digest) {
			delete(r.modules, digest)
			if l.gone = true; l.uses == 0 {
				errs = append(errs, l.Module.Close())
			}
		}
		if !named {
			delete(r.broken, digest)
		}
		r.mu.Unlock()
		if named {
			continue
		}
		code, err := hex.DecodeString(digest)
		if err == nil && !r.standard.Refers(digest) && r.host != nil {
			errs = append(errs, r.host.Discard([32]byte(code)))
		}
		if err := os.Remove(r.path(digest)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove module: %w", err))
		}
	}
	return errors.Join(errs...)
}

// CopyTo copies the catalogue and its modules into a new directory; what they compile to is made
// again.
func (r *Registry) CopyTo(ctx context.Context, dir string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("copy plugins: %w", err)
	}
	state := r.clusterState()
	for _, p := range state.Plugins {
		for i := range p.Versions {
			wasm, err := os.ReadFile(r.path(p.Versions[i].SHA256))
			if r.cluster != nil && (err != nil || Digest(wasm) != p.Versions[i].SHA256) {
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

// Close closes the catalog and all modules; no version is in use any more.
func (r *Registry) Close() error {
	r.changing.Lock()
	defer r.changing.Unlock()
	var errs []error
	if r.file != nil {
		errs = append(errs, r.file.Close())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.modules {
		errs = append(errs, l.Module.Close())
	}
	return errors.Join(errs...)
}
