package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// saved is what an aggregate has of its groups before they are finished, as it moves between
// instances and nodes.
type saved struct {
	keys   []groupKey
	counts []uint64
	states []byte // as [wasmhost.Aggregate.States] returns them
}

func (a *aggregator) save(ctx context.Context) (*saved, error) {
	states, err := a.guest.States(ctx)
	return &saved{keys: a.groups.keys, counts: a.groups.counts, states: states}, err
}

// merge folds the states of another aggregator into its own.
func (a *aggregator) merge(ctx context.Context, from *saved) error {
	a.gid = a.gid[:0]
	for i, k := range from.keys {
		id, err := a.groups.id(k)
		if err != nil {
			return err
		}
		a.groups.counts[id] += from.counts[i]
		a.gid = append(a.gid, id)
	}
	return a.guest.Merge(ctx, from.states, a.gid)
}

// states implements source.
func (n *local) states(
	ctx context.Context, q *record.Query, module *pluginVersion,
) (*saved, wire.End, error) {
	cal, err := calendarOf(q.GroupBy)
	if err != nil {
		return nil, wire.End{}, err
	}
	workers, stats, err := n.fold(ctx, q, module, cal, true)
	defer closeAll(workers)
	out := &saved{}
	if err == nil && len(workers) > 0 {
		if err = mergeWorkers(ctx, workers); err == nil {
			out, err = workers[0].save(ctx)
		}
	}
	return out, endOf(stats, 0), err
}

// states implements source.
func (r *distant) states(
	ctx context.Context, q *record.Query, module *pluginVersion,
) (*saved, wire.End, error) {
	out := &saved{}
	var stopped error
	c := r.client()
	if scopeOf(ctx).fresh {
		c = c.Fresh()
	}
	end, err := c.States(ctx, q, func(states []wire.GroupState) error {
		r.hear()
		stopped = out.add(module, states, r.budget)
		return stopped
	})
	if stopped != nil {
		return nil, end, stopped
	}
	end, err = r.whole(ctx, end, err)
	return out, end, err
}

// keyBytes is what a group takes beside its state: its key and its count.
const keyBytes = int(unsafe.Sizeof(groupKey{})) + 8

// stateBytes returns the size of a plugin's states, 0 where each has its own.
func stateBytes(module *pluginVersion) int {
	d := module.module.Describe()
	if d.Flags&plugin.FlagGrows != 0 {
		return 0
	}
	return int(d.StateSize)
}

// add appends states of another node.
func (s *saved) add(module *pluginVersion, states []wire.GroupState, maxBytes int64) error {
	size := stateBytes(module)
	for i := range states {
		from := &states[i]
		if size > 0 && len(from.State) != size {
			return &wire.Error{Kind: wire.KindPluginFailed, Message: fmt.Sprintf(
				"a state of %s has %d bytes, not %d: the nodes do not run the same module",
				module.name, len(from.State), size)}
		}
		if int64(len(s.states)+len(from.State)+(len(s.keys)+1)*keyBytes) > maxBytes {
			return errTooLarge
		}
		s.keys = append(s.keys, groupKey{cid: from.CID, mid: from.MID, moid: from.MOID,
			cap: from.CapNs, before: from.Before})
		s.counts = append(s.counts, from.Records)
		if size == 0 {
			s.states = binary.LittleEndian.AppendUint32(s.states, uint32(len(from.State)))
		}
		s.states = append(s.states, from.State...)
	}
	return nil
}

// each hands over the states one by one; they alias those of s.
func (s *saved) each(module *pluginVersion, emit func(wire.GroupState) error) error {
	size, rest := stateBytes(module), s.states
	for i, k := range s.keys {
		n := size
		if size == 0 {
			n, rest = int(binary.LittleEndian.Uint32(rest)), rest[4:]
		}
		err := emit(wire.GroupState{CID: k.cid, MID: k.mid, MOID: k.moid, CapNs: k.cap,
			Before: k.before, Records: s.counts[i], State: rest[:n]})
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// statesOfAll asks all sources for their states and merges them, in the order of the sources, so
// that the same question of the same data has the same answer. The aggregator is the caller's to
// close, also with an error; it may be nil.
func (n *Node) statesOfAll(
	ctx context.Context, q *record.Query, module *pluginVersion,
) (*aggregator, wire.End, error) {
	pinned, err := n.pinned(ctx, q)
	if err != nil {
		return nil, wire.End{}, err
	}
	a, err := ask(ctx, n, askStates, &q.Box, func(ctx context.Context, s source) (
		*saved, wire.End, error,
	) {
		return s.states(ctx, pinned, module)
	})
	if err != nil {
		return nil, wire.End{}, err
	}
	end := a.end()
	guest, err := module.module.NewAggregate(ctx, q.Aggregate.Params)
	if err != nil {
		return nil, end, err
	}
	into := &aggregator{groups: newGroups(q.GroupBy, nil, n.opt.MaxGroups), guest: guest}
	for i, from := range a.answers {
		if a.errs[i] != nil || len(from.keys) == 0 {
			continue
		}
		if err := into.merge(ctx, from); err != nil {
			return into, end, err
		}
	}
	return into, end, nil
}

// States hands over the groups of an aggregate before they are joined and finished, for who merges
// them with those of other nodes. What emit gets is valid during the call.
func (n *Node) States(
	ctx context.Context, q *record.Query, emit func(wire.GroupState) error,
) (wire.End, error) {
	ctx, err := n.begin(ctx, q)
	if err != nil {
		return wire.End{}, err
	}
	defer func() { <-n.queries }()
	end, err := n.emitStates(ctx, q, emit)
	if err != nil {
		n.failed(q, err)
	}
	return end, err
}

func (n *Node) emitStates(
	ctx context.Context, q *record.Query, emit func(wire.GroupState) error,
) (end wire.End, err error) {
	module, err := n.plugins.useCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err != nil {
		return wire.End{}, err
	}
	defer n.plugins.release(module)
	if module.joins() {
		if err := checkJoin(q); err != nil {
			return wire.End{}, err
		}
	}
	ctx, done := n.owned(ctx, q)
	defer done()
	var all *saved
	if only := n.layout.Load().only; only != nil {
		all, end, err = only.states(ctx, q, module)
	} else {
		var into *aggregator
		if into, end, err = n.statesOfAll(ctx, q, module); into != nil {
			defer closeAll([]*aggregator{into})
		}
		if err == nil {
			all, err = into.save(ctx)
		}
	}
	if err != nil {
		return end, err
	}
	end.Rows = uint64(len(all.keys))
	return end, all.each(module, emit)
}

// groupsOfAll is an aggregate of all sources.
func (n *Node) groupsOfAll(
	ctx context.Context, q *record.Query, module *pluginVersion,
) ([]wire.Group, wire.End, error) {
	into, end, err := n.statesOfAll(ctx, q, module)
	if into != nil {
		defer closeAll([]*aggregator{into})
	}
	if err != nil {
		return nil, end, err
	}
	out, err := into.finish(ctx, q.Limit, module.joins())
	end.Rows = uint64(len(out))
	return out, end, err
}
