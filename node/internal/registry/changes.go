package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// Upload is a module to be stored under a name.
type Upload struct {
	Name        string
	Owner       string // at most 64 bytes; may be empty
	Description string // at most 1,024 bytes
	Wasm        []byte
}

// Info describes a version. That of [Registry.Find] need not be loaded.
func (r *Registry) Info(v *Version) api.PluginInfo {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, _ := r.plugin(v.Name)
	_, standard := r.standard.Plugins[v.Name]
	out := api.PluginInfo{Name: v.Name, SHA256: v.SHA256, Bytes: v.Bytes, Owner: v.Owner,
		Description: v.Description, Current: v.current, Versions: len(p.Versions),
		Standard: standard}
	if v.UploadedNs != 0 {
		out.Uploaded, out.UploadedNs = record.FormatNs(v.UploadedNs), v.UploadedNs
	}
	l := v.loaded
	if l == nil {
		l = r.modules[v.SHA256]
	}
	if err := r.broken[v.SHA256]; err != nil {
		out.Damage = message(err)
	}
	if l != nil {
		describe(&out, l.Module.Describe())
	}
	return out
}

func describe(out *api.PluginInfo, d wasmhost.Descriptor) {
	out.LinksPredecessors = d.Flags&plugin.FlagLinksPredecessors != 0
	out.Filter, out.Aggregate = d.Kinds&plugin.KindFilter != 0, d.Kinds&plugin.KindAggregate != 0
	if len(d.Doc) > 0 {
		out.Doc = d.Doc
	}
}

// List describes the current versions by name.
func (r *Registry) List() []api.PluginInfo {
	r.mu.RLock()
	var all []*Version
	for _, name := range r.names() {
		v, err := r.version(name)
		if err != nil {
			panic("BUG: a name of the registry is not known: " + err.Error())
		}
		all = append(all, v)
	}
	r.mu.RUnlock()
	out := make([]api.PluginInfo, len(all))
	for i, v := range all {
		out[i] = r.Info(v)
	}
	return out
}

// History describes all versions of a name, the newest first.
func (r *Registry) History(name string) []api.PluginInfo {
	r.mu.RLock()
	p, _ := r.plugin(name)
	r.mu.RUnlock()
	out := make([]api.PluginInfo, 0, len(p.Versions))
	for i := range slices.Backward(p.Versions) {
		one := r.Info(&Version{Name: name, Version: p.Versions[i], current: i == p.Current})
		one.Doc = nil // only the version that was requested has it
		out = append(out, one)
	}
	return out
}

// change writes a change into the catalogue and makes it known; a push has its module.
func (r *Registry) change(ctx context.Context, c *catalog.Change, wasm []byte) error {
	if r.cluster != nil {
		return r.propose(ctx, c, wasm)
	}
	if err := r.file.Append(c); err != nil {
		return err
	}
	r.mu.Lock()
	r.state = r.file.State
	r.mu.Unlock()
	return nil
}

// changeable refuses the standard plugins.
func (r *Registry) changeable(name string) error {
	if _, ok := r.standard.Plugins[name]; ok {
		return &wire.Error{Kind: wire.KindForbidden,
			Message: fmt.Sprintf("%q is a standard plugin; use another name", name)}
	}
	return nil
}

func (p *Upload) check() error {
	invalid := func(part, detail string) error {
		return &record.InvalidError{Part: part, Reason: record.OutOfRange, Row: -1, Detail: detail}
	}
	if !record.NewPluginName(p.Name) {
		return invalid("plugin", fmt.Sprintf("%q is not a name: 1 to %d of a-z, 0-9, - and _, not "+
			"beginning with -, and no device such as con", clipped(p.Name),
			record.MaxPluginNameBytes))
	}
	if p.Owner == StandardOwner {
		return invalid("owner", "reserved for the standard plugins; use another")
	}
	if err := catalog.CheckText("owner", p.Owner, catalog.MaxOwnerBytes); err != nil {
		return invalid("owner", err.Error())
	}
	err := catalog.CheckText("description", p.Description, catalog.MaxDescriptionBytes)
	if err != nil {
		return invalid("description", err.Error())
	}
	return nil
}

// Versions of one name, and of all names of one owner, so that one that uploads again and again
// leaves space for the others in a catalogue of [catalog.MaxVersions]. What was stored before there
// were these limits stays.
const (
	maxVersionsOfName  = 256
	maxVersionsOfOwner = 1024
)

// checkLimit refuses a version that is new where its name or owner has too many.
func (r *Registry) checkLimit(p *Upload) error {
	state, digest := r.clusterState(), Digest(p.Wasm)
	owned := 0
	for name, plugin := range state.Plugins {
		for i := range plugin.Versions {
			v := &plugin.Versions[i]
			if name == p.Name && v.SHA256 == digest {
				return nil
			}
			if v.Owner == p.Owner {
				owned++
			}
		}
	}
	full := func(what string, most int) error {
		return &wire.Error{Kind: wire.KindTooLarge, Message: fmt.Sprintf("%s has %d versions, the "+
			"most that there may be; remove old ones: pentad plugin rm NAME@DIGEST", what, most)}
	}
	switch {
	case len(state.Plugins[p.Name].Versions) >= maxVersionsOfName:
		return full(fmt.Sprintf("plugin %q", p.Name), maxVersionsOfName)
	case owned >= maxVersionsOfOwner && p.Owner == "":
		return full("the node, of plugins without an owner,", maxVersionsOfOwner)
	case owned >= maxVersionsOfOwner:
		return full(fmt.Sprintf("owner %q", p.Owner), maxVersionsOfOwner)
	}
	return nil
}

// Push checks, compiles and stores a module as the current version of a name, and describes it.
// Queries that run go on with theirs.
func (r *Registry) Push(ctx context.Context, p Upload) (out api.PluginInfo, err error) {
	if r.off != nil {
		return out, r.off
	}
	if err := p.check(); err != nil {
		return out, err
	}
	if err := r.changeable(p.Name); err != nil {
		return out, err
	}
	if err := r.checkLimit(&p); err != nil {
		return out, err
	}
	l, err := compile(ctx, r.host, p.Name, p.Wasm)
	r.changing.Lock() // not during the compilation, so that others can make changes
	defer r.changing.Unlock()
	if err != nil { // it may have got as far as to code
		return out, errors.Join(err, r.drop([]string{Digest(p.Wasm)}))
	}
	v := &Version{Name: p.Name, current: true, Version: catalog.Version{
		SHA256: Digest(p.Wasm), Bytes: int64(len(p.Wasm)), Owner: p.Owner,
		Description: p.Description, UploadedNs: time.Now().UnixNano()}}
	// The file is written even if it exists: it may be damaged.
	if err = r.write(v.SHA256, p.Wasm); err == nil {
		err = r.change(ctx, &catalog.Change{Push: &catalog.Push{Name: p.Name,
			Version: v.Version}}, p.Wasm)
	}
	if err != nil {
		_ = l.Module.Close() // nothing runs in it
	}
	if errors.Is(err, catalog.ErrFailed) {
		return out, err // the line may be there after a restart, and then so must the module
	}
	if err != nil {
		return out, errors.Join(err, r.drop([]string{v.SHA256}))
	}
	r.mu.Lock()
	v.loaded = r.adopt(v.SHA256, l)
	r.mu.Unlock()
	return r.Info(v), nil
}

// Find finds the version of a name or name@digest. It loads no module and begins no use.
func (r *Registry) Find(ref string) (*Version, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.version(ref)
}

// findNewest is Find in the newest catalogue that there is.
func (r *Registry) findNewest(ctx context.Context, ref string) (*Version, error) {
	if r.cluster != nil {
		if err := r.refresh(ctx); err != nil {
			return nil, err
		}
	}
	return r.Find(ref)
}

// Promote makes a version, name@digest, the one that the name alone means, and describes it.
func (r *Registry) Promote(ctx context.Context, ref string) (out api.PluginInfo, err error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	v, err := r.findNewest(ctx, ref)
	if err == nil {
		err = r.changeable(v.Name)
	}
	if err == nil {
		err = r.change(ctx, &catalog.Change{Promote: &catalog.Ref{Name: v.Name,
			SHA256: v.SHA256}}, nil)
	}
	if err != nil {
		return out, err
	}
	v.current = true
	return r.Info(v), nil
}

// Remove removes a version, name@digest, or all of a name. Queries that run in them go on.
func (r *Registry) Remove(ctx context.Context, ref string) (removed int, err error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	v, err := r.findNewest(ctx, ref)
	if err == nil {
		err = r.changeable(v.Name)
	}
	if err != nil {
		return 0, err
	}
	what := catalog.Ref{Name: v.Name}
	digests := []string{v.SHA256}
	if ref != v.Name {
		what.SHA256 = v.SHA256
	} else {
		digests = digests[:0]
		for _, old := range r.clusterState().Plugins[v.Name].Versions {
			digests = append(digests, old.SHA256)
		}
	}
	if err = r.change(ctx, &catalog.Change{Remove: &what}, nil); err != nil {
		return 0, err
	}
	return len(digests), r.drop(digests)
}

// message is what an error says of a module.
func message(err error) string {
	var known *wire.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}
