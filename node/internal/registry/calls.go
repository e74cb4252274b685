package registry

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// UseCall is Use for a call, which may bring its module along. The module must be of a kind, and
// take the parameters of the call.
func (r *Registry) UseCall(
	ctx context.Context, call *record.PluginCall, kind uint32,
) (*Version, error) {
	var v *Version
	var err error
	if call.Module == nil {
		v, err = r.Use(ctx, call.Name)
	} else {
		v, err = r.useAdHoc(ctx, call.Name, call.Module)
	}
	if err == nil {
		v, err = r.checkKind(v, call.Name, kind)
	}
	if err != nil {
		return nil, err
	}
	if err := v.Doc.CheckParams(call.Params); err != nil {
		r.Unpin(v)
		part := "filter"
		if kind == plugin.KindAggregate {
			part = "aggregate"
		}
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: part,
			Reason: string(record.OutOfRange), Message: err.Error()}
	}
	return v, nil
}

// UseKind is Use for a module that must be a filter, or an aggregate.
func (r *Registry) UseKind(ctx context.Context, ref string, kind uint32) (*Version, error) {
	v, err := r.Use(ctx, ref)
	if err != nil {
		return nil, err
	}
	return r.checkKind(v, ref, kind)
}

func (r *Registry) checkKind(v *Version, ref string, kind uint32) (*Version, error) {
	if v.is(kind) {
		return v, nil
	}
	r.Unpin(v)
	if kind == plugin.KindFilter {
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: "filter",
			Reason: string(record.OutOfRange), Message: fmt.Sprintf(
				"plugin %q is an aggregate and no filter; run it", ref)}
	}
	return nil, &wire.Error{Kind: wire.KindInvalid, Part: "aggregate",
		Reason: string(record.OutOfRange), Message: fmt.Sprintf(
			"plugin %q is a filter and no aggregate; name it as the filter", ref)}
}
