package node

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// useCall is use for a call, which may bring its module along: that is compiled for the one who
// asks, kept nowhere, and closed when it is released.
func (r *registry) useCall(
	ctx context.Context, call *record.PluginCall, kind uint32,
) (*pluginVersion, error) {
	var v *pluginVersion
	var err error
	if call.Module == nil {
		v, err = r.use(ctx, call.Name)
	} else {
		v, err = r.lend(ctx, call.Name, call.Module)
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

// lend compiles a module that is not the node's, unless it is lent already.
func (r *registry) lend(
	ctx context.Context, name string, wasm []byte,
) (*pluginVersion, error) {
	v := &pluginVersion{name: name,
		Version: catalog.Version{SHA256: digestOf(wasm), Bytes: int64(len(wasm))}}
	r.mu.Lock()
	if v.loaded = r.brought[v.SHA256]; v.loaded != nil {
		v.uses++
		r.mu.Unlock()
		return v, nil
	}
	room := len(wasm) <= maxLentBytes-r.lentBytes
	if room {
		r.lentBytes += len(wasm)
	}
	r.mu.Unlock()
	if !room {
		return nil, fmt.Errorf("modules that come with queries: %w", errTooBusy)
	}
	l, err := compile(ctx, r.lent, name, wasm)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.lentBytes -= len(wasm)
		return nil, err
	}
	l.lent, l.uses, l.gone = len(wasm), 1, true
	if r.brought[v.SHA256] == nil { // else another query was as quick, and each has its own
		r.brought[v.SHA256] = l
	}
	v.loaded = l
	return v, nil
}

// useKind is use for what must be a filter or an aggregate.
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
