package node

import (
	"context"
	"errors"

	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// PluginPush is an upload of a module under a name.
type PluginPush = registry.Upload

// PushPlugin stores a module as the current version of a name.
func (n *Node) PushPlugin(ctx context.Context, p PluginPush) (api.PluginInfo, error) {
	v, err := n.plugins.Push(ctx, p)
	if err != nil {
		return api.PluginInfo{}, err
	}
	return n.plugins.Info(v), nil
}

// CheckPlugin checks and describes a module without keeping it.
func (n *Node) CheckPlugin(ctx context.Context, wasm []byte) (api.PluginDetails, error) {
	v, info, err := n.plugins.Check(ctx, wasm)
	if err != nil {
		return api.PluginDetails{}, err
	}
	defer n.plugins.Unpin(v)
	return api.PluginDetails{Limits: n.limits(v.Module), PluginInfo: info}, nil
}

// PromotePlugin makes a version, name@digest, the one that the name alone means.
func (n *Node) PromotePlugin(ref string) (api.PluginInfo, error) {
	v, err := n.plugins.Promote(n.open, ref)
	if err != nil {
		return api.PluginInfo{}, err
	}
	return n.plugins.Info(v), nil
}

// RemovePlugin removes a version, name@digest, or all versions of a name, and returns how many.
func (n *Node) RemovePlugin(ref string) (int, error) {
	return n.plugins.Remove(n.open, ref)
}

// Plugins lists the current versions by name.
func (n *Node) Plugins() []api.PluginInfo { return n.plugins.List() }

// Plugin describes a version, name@digest, or the current one of a name.
func (n *Node) Plugin(ctx context.Context, ref string) (api.PluginDetails, error) {
	v, err := n.plugins.Use(ctx, ref)
	var remote *wire.Error
	if errors.As(err, &remote) && remote.Kind == wire.KindUnknownPlugin {
		return api.PluginDetails{}, err
	}
	if err != nil {
		known, unknown := n.plugins.Find(ref)
		if unknown != nil { // and the cluster does not answer
			return api.PluginDetails{}, err
		}
		v = known // a damaged version is described as such
		return api.PluginDetails{PluginInfo: n.plugins.Info(v),
			History: n.plugins.History(v.Name)}, nil
	}
	defer n.plugins.Unpin(v)
	return api.PluginDetails{PluginInfo: n.plugins.Info(v), Limits: n.limits(v.Module),
		History: n.plugins.History(v.Name)}, nil
}

func (n *Node) limits(m *wasmhost.Module) *api.PluginLimits {
	a, d := m.Limits(), m.Describe()
	return &api.PluginLimits{MemoryBytes: int64(a.MemoryPages) << 16, StateBytes: a.StateBytes,
		ResultBytes: a.ResultBytes, ParamsBytes: d.ParamsMax, GroupStateBytes: d.StateSize,
		MaxGroups: n.opt.MaxGroups, FuelStart: a.FuelStart, FuelCall: a.FuelCall,
		FuelRow: a.FuelRow, FuelByte: a.FuelByte, FuelStateByte: a.FuelStateByte}
}
