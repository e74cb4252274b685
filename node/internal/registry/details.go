package registry

import (
	"context"
	"errors"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// Details describes a version, name@digest, or the current one of a name, with its limits and the
// history of the name.
func (r *Registry) Details(ctx context.Context, ref string) (api.PluginDetails, error) {
	v, err := r.Use(ctx, ref)
	var remote *wire.Error
	if errors.As(err, &remote) && remote.Kind == wire.KindUnknownPlugin {
		return api.PluginDetails{}, err
	}
	if err != nil {
		known, unknown := r.Find(ref)
		if unknown != nil { // and the cluster does not answer
			return api.PluginDetails{}, err
		}
		v = known // a damaged version is described as such
		return api.PluginDetails{PluginInfo: r.Info(v), History: r.History(v.Name)}, nil
	}
	defer r.Unpin(v)
	return api.PluginDetails{PluginInfo: r.Info(v), Limits: r.limits(v.Module),
		History: r.History(v.Name)}, nil
}

// Check checks and describes a module without keeping it.
func (r *Registry) Check(ctx context.Context, wasm []byte) (out api.PluginDetails, err error) {
	v, err := r.useAdHoc(ctx, "", wasm)
	if err != nil {
		return out, err
	}
	defer r.Unpin(v)
	out.PluginInfo = api.PluginInfo{Name: v.Module.Name(), SHA256: v.SHA256, Bytes: v.Bytes}
	describe(&out.PluginInfo, v.Module.Describe())
	out.Limits = r.limits(v.Module)
	return out, nil
}

func (r *Registry) limits(m *wasmhost.Module) *api.PluginLimits {
	a, d := m.Limits(), m.Describe()
	return &api.PluginLimits{MemoryBytes: int64(a.MemoryPages) << 16, StateBytes: a.StateBytes,
		ResultBytes: a.ResultBytes, ParamsBytes: d.ParamsMax, GroupStateBytes: d.StateSize,
		MaxGroups: r.maxGroups, FuelStart: a.FuelStart, FuelCall: a.FuelCall,
		FuelRow: a.FuelRow, FuelByte: a.FuelByte, FuelStateByte: a.FuelStateByte}
}
