package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// PluginPush is an upload of a module under a name.
type PluginPush struct {
	Name        string
	Owner       string // at most 64 bytes; may be empty
	Description string // at most 1,024 bytes
	Wasm        []byte
}

// info describes a version. With v.loaded nil it is not loaded.
func (r *registry) info(v *pluginVersion) api.PluginInfo {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, _ := r.plugin(v.name)
	_, standard := r.standard.Plugins[v.name]
	out := api.PluginInfo{Name: v.name, SHA256: v.SHA256, Bytes: v.Bytes, Owner: v.Owner,
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
		out.Damage = toWire(err).Message
	}
	if l != nil {
		describe(&out, l.module.Describe())
	}
	return out
}

func describe(out *api.PluginInfo, d wasmhost.Descriptor) {
	out.Joins = d.Flags&plugin.FlagJoins != 0
	out.Filter, out.Aggregate = d.Kinds&plugin.KindFilter != 0, d.Kinds&plugin.KindAggregate != 0
	if len(d.Doc) > 0 {
		out.Doc = d.Doc
	}
}

// list describes the current versions by name.
func (r *registry) list() []api.PluginInfo {
	r.mu.RLock()
	var all []*pluginVersion
	for _, name := range r.names() {
		v, err := r.resolve(name)
		if err != nil {
			panic("BUG: a name of the registry is not known: " + err.Error())
		}
		all = append(all, v)
	}
	r.mu.RUnlock()
	out := make([]api.PluginInfo, len(all))
	for i, v := range all {
		out[i] = r.info(v)
	}
	return out
}

// history describes all versions of a name, the newest first.
func (r *registry) history(name string) []api.PluginInfo {
	r.mu.RLock()
	p, _ := r.plugin(name)
	r.mu.RUnlock()
	out := make([]api.PluginInfo, 0, len(p.Versions))
	for i := range slices.Backward(p.Versions) {
		one := r.info(&pluginVersion{name: name, Version: p.Versions[i], current: i == p.Current})
		one.Doc = nil // only the version that was requested has it
		out = append(out, one)
	}
	return out
}

// change writes a change into the catalogue and makes it known; a push has its module.
func (r *registry) change(ctx context.Context, c *catalog.Change, wasm []byte) error {
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

// catalogError gives refusals of a catalogue the form in which they cross the network, else nil.
func catalogError(err error) *wire.Error {
	switch {
	case errors.Is(err, catalog.ErrFull), errors.Is(err, catalog.ErrFullQuantities):
		return &wire.Error{Kind: wire.KindTooLarge, Message: err.Error()}
	case errors.Is(err, catalog.ErrUnknown):
		return &wire.Error{Kind: wire.KindUnknownPlugin, Message: err.Error()}
	case errors.Is(err, catalog.ErrCurrent):
		return &wire.Error{Kind: wire.KindInvalid, Part: "plugin", Message: err.Error()}
	}
	return nil
}

// changeable refuses the standard plugins.
func (r *registry) changeable(name string) error {
	if _, ok := r.standard.Plugins[name]; ok {
		return &wire.Error{Kind: wire.KindForbidden,
			Message: fmt.Sprintf("%q is a standard plugin; take another name", name)}
	}
	return nil
}

func (p *PluginPush) check() error {
	invalid := func(part, detail string) error {
		return &record.InvalidError{Part: part, Reason: record.OutOfRange, Row: -1, Detail: detail}
	}
	if !record.ValidPluginName(p.Name) {
		return invalid("plugin", fmt.Sprintf("%q is not a name: 1 to %d of a-z, 0-9, - and _",
			params.Clip(p.Name), record.MaxPluginNameBytes))
	}
	if p.Owner == standardOwner {
		return invalid("owner", "pentad owns the standard plugins; take another")
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
// leaves room for the others in a catalogue of [catalog.MaxVersions]. What was stored before there
// were these limits stays.
const (
	maxVersionsOfName  = 256
	maxVersionsOfOwner = 1024
)

// room refuses a version that is new where its name or owner has too many.
func (r *registry) room(p *PluginPush) error {
	state, digest := r.clusterState(), digestOf(p.Wasm)
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

// push checks, compiles and stores a module as the current version of a name. Queries that run go
// on with theirs.
func (r *registry) push(ctx context.Context, p PluginPush) (*pluginVersion, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := r.changeable(p.Name); err != nil {
		return nil, err
	}
	if err := r.room(&p); err != nil {
		return nil, err
	}
	l, err := compile(ctx, r.host, p.Name, p.Wasm)
	r.changing.Lock() // not during the compilation, so that others can make changes
	defer r.changing.Unlock()
	if err != nil { // it may have got as far as to code
		return nil, errors.Join(err, r.drop([]string{digestOf(p.Wasm)}))
	}
	v := &pluginVersion{name: p.Name, current: true, Version: catalog.Version{
		SHA256: digestOf(p.Wasm), Bytes: int64(len(p.Wasm)), Owner: p.Owner,
		Description: p.Description, UploadedNs: time.Now().UnixNano()}}
	// The file is written even if it exists: it may be damaged.
	if err = r.write(v.SHA256, p.Wasm); err == nil {
		err = r.change(ctx, &catalog.Change{Push: &catalog.Push{Name: p.Name,
			Version: v.Version}}, p.Wasm)
	}
	if err != nil {
		_ = l.module.Close() // nothing runs in it
	}
	if errors.Is(err, catalog.ErrFailed) {
		return nil, err // the line may be there after a restart, and then so must the module
	}
	if err != nil {
		return nil, errors.Join(err, r.drop([]string{v.SHA256}))
	}
	r.mu.Lock()
	v.loaded = r.adopt(v.SHA256, l)
	r.mu.Unlock()
	return v, nil
}

// find resolves a name or name@digest.
func (r *registry) find(ref string) (*pluginVersion, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.resolve(ref)
}

// findNewest is find in the newest catalogue that there is.
func (r *registry) findNewest(ctx context.Context, ref string) (*pluginVersion, error) {
	if r.cluster != nil {
		if err := r.refresh(ctx); err != nil {
			return nil, err
		}
	}
	return r.find(ref)
}

// promote makes a version current.
func (r *registry) promote(ctx context.Context, ref string) (*pluginVersion, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	v, err := r.findNewest(ctx, ref)
	if err == nil {
		err = r.changeable(v.name)
	}
	if err == nil {
		err = r.change(ctx, &catalog.Change{Promote: &catalog.Ref{Name: v.name,
			SHA256: v.SHA256}}, nil)
	}
	if err != nil {
		return nil, err
	}
	v.current = true
	return v, nil
}

// remove removes a version, name@digest, or all of a name. Queries that run in them go on.
func (r *registry) remove(ctx context.Context, ref string) (removed int, err error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	v, err := r.findNewest(ctx, ref)
	if err == nil {
		err = r.changeable(v.name)
	}
	if err != nil {
		return 0, err
	}
	what := catalog.Ref{Name: v.name}
	digests := []string{v.SHA256}
	if ref != v.name {
		what.SHA256 = v.SHA256
	} else {
		digests = digests[:0]
		for _, old := range r.clusterState().Plugins[v.name].Versions {
			digests = append(digests, old.SHA256)
		}
	}
	err = r.change(ctx, &catalog.Change{Remove: &what}, nil)
	if r.cluster != nil {
		err = removedBefore(err)
	}
	if err != nil {
		return 0, err
	}
	return len(digests), r.drop(digests)
}

// PushPlugin stores a module as the current version of a name.
func (n *Node) PushPlugin(ctx context.Context, p PluginPush) (api.PluginInfo, error) {
	v, err := n.plugins.push(ctx, p)
	if err != nil {
		return api.PluginInfo{}, err
	}
	return n.plugins.info(v), nil
}

// CheckPlugin checks and describes a module without keeping it.
func (n *Node) CheckPlugin(ctx context.Context, wasm []byte) (api.PluginDetails, error) {
	v, err := n.plugins.useAdHoc(ctx, "", wasm)
	if err != nil {
		return api.PluginDetails{}, err
	}
	defer n.plugins.release(v)
	v.name = v.module.Name()
	out := api.PluginDetails{Limits: n.limits(v.module), PluginInfo: api.PluginInfo{Name: v.name,
		SHA256: v.SHA256, Bytes: v.Bytes}}
	describe(&out.PluginInfo, v.module.Describe())
	return out, nil
}

// PromotePlugin makes a version, name@digest, the one that the name alone means.
func (n *Node) PromotePlugin(ref string) (api.PluginInfo, error) {
	v, err := n.plugins.promote(n.open, ref)
	if err != nil {
		return api.PluginInfo{}, err
	}
	return n.plugins.info(v), nil
}

// RemovePlugin removes a version, name@digest, or all versions of a name, and returns how many.
func (n *Node) RemovePlugin(ref string) (int, error) {
	return n.plugins.remove(n.open, ref)
}

// Plugins lists the current versions by name.
func (n *Node) Plugins() []api.PluginInfo { return n.plugins.list() }

// Plugin describes a version, name@digest, or the current one of a name.
func (n *Node) Plugin(ctx context.Context, ref string) (api.PluginDetails, error) {
	v, err := n.plugins.use(ctx, ref)
	var remote *wire.Error
	if errors.As(err, &remote) && remote.Kind == wire.KindUnknownPlugin {
		return api.PluginDetails{}, err
	}
	if err != nil {
		known, unknown := n.plugins.find(ref)
		if unknown != nil { // and the cluster does not answer
			return api.PluginDetails{}, err
		}
		v = known // a damaged version is described as such
		return api.PluginDetails{PluginInfo: n.plugins.info(v),
			History: n.plugins.history(v.name)}, nil
	}
	defer n.plugins.release(v)
	return api.PluginDetails{PluginInfo: n.plugins.info(v), Limits: n.limits(v.module),
		History: n.plugins.history(v.name)}, nil
}

func (n *Node) limits(m *wasmhost.Module) *api.PluginLimits {
	a, d := m.Limits(), m.Describe()
	return &api.PluginLimits{MemoryBytes: int64(a.MemoryPages) << 16, StateBytes: a.StateBytes,
		ResultBytes: a.ResultBytes, ParamsBytes: d.ParamsMax, GroupStateBytes: d.StateSize,
		MaxGroups: n.opt.MaxGroups, FuelStart: a.FuelStart, FuelCall: a.FuelCall,
		FuelRow: a.FuelRow, FuelByte: a.FuelByte, FuelStateByte: a.FuelStateByte}
}
