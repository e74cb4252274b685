package node

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// useCall is use for a call, which may bring its module along: see lent.
func (r *registry) useCall(
	ctx context.Context, call *record.PluginCall, kind uint32,
) (*pluginVersion, error) {
	var v *pluginVersion
	var err error
	if call.Module == nil {
		v, err = r.use(ctx, call.Name)
	} else {
		v, err = r.useAdHoc(ctx, call.Name, call.Module)
	}
	if err == nil {
		v, err = r.checkKind(v, call.Name, kind)
	}
	if err != nil {
		return nil, err
	}
	if err := v.doc.CheckParams(call.Params); err != nil {
		r.release(v)
		part := "filter"
		if kind == plugin.KindAggregate {
			part = "aggregate"
		}
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: part,
			Reason: string(record.OutOfRange), Message: err.Error()}
	}
	return v, nil
}

// useKind is use for a module that must be a filter, or an aggregate.
func (r *registry) useKind(ctx context.Context, ref string, kind uint32) (*pluginVersion, error) {
	v, err := r.use(ctx, ref)
	if err != nil {
		return nil, err
	}
	return r.checkKind(v, ref, kind)
}

func (r *registry) checkKind(v *pluginVersion, ref string, kind uint32) (*pluginVersion, error) {
	if v.is(kind) {
		return v, nil
	}
	r.release(v)
	if kind == plugin.KindFilter {
		return nil, &wire.Error{Kind: wire.KindInvalid, Part: "filter",
			Reason: string(record.OutOfRange), Message: fmt.Sprintf(
				"plugin %q is an aggregate and no filter; run it", ref)}
	}
	return nil, &wire.Error{Kind: wire.KindInvalid, Part: "aggregate",
		Reason: string(record.OutOfRange), Message: fmt.Sprintf(
			"plugin %q is a filter and no aggregate; name it as the filter", ref)}
}
