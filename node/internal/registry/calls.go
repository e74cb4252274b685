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
				"plugin %q is an aggregate, not a filter; run it", ref)}
	}
	return nil, &wire.Error{Kind: wire.KindInvalid, Part: "aggregate",
		Reason: string(record.OutOfRange), Message: fmt.Sprintf(
			"plugin %q is a filter, not an aggregate; give it as the filter", ref)}
}

// Call encodes the parameters of a version in use as its document says; see [plugin.Doc.Fit].
// The call names the exact version, so that an upload cannot replace the module that the parameters
// were encoded for. moids are those of the records, nil for all.
func (r *Registry) Call(
	v *Version, values map[string]string, moids record.RangeSet, unchecked bool,
) (call record.PluginCall, err error) {
	call.Name = v.Ref()
	spans := make([][2]int64, len(moids))
	for i, m := range moids {
		spans[i] = [2]int64{m.From, m.To}
	}
	if err := v.Doc.Fit(values, r.Quantities(), spans, unchecked); err != nil {
		return call, err
	}
	call.Params, err = v.Doc.EncodeParams(values)
	return call, err
}
