package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"unsafe"

	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// savedGroups are the groups of an aggregate as saved states, which can be moved between instances
// and nodes.
type savedGroups struct {
	keys   []groupKey
	counts []uint64
	states []byte // as [wasmhost.Aggregate.States] returns them
}

func (a *aggregator) save(ctx context.Context) (*savedGroups, error) {
	states, err := a.guest.States(ctx)
	return &savedGroups{keys: a.groups.keys, counts: a.groups.counts, states: states}, err
}

// merge merges the states of another aggregator into its own.
func (a *aggregator) merge(ctx context.Context, from *savedGroups) error {
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
func (n *localSource) states(
	ctx context.Context, q *prepared, module *registry.Version, over *overflow,
) (*savedGroups, wire.End, error) {
	cal, err := calendarOf(q.GroupBy)
	if err != nil {
		return nil, wire.End{}, err
	}
	workers, stats, err := n.fold(ctx, q, module, cal, over, true)
	defer closeAll(workers)
	out := &savedGroups{}
	if err == nil {
		err = mergeWorkers(ctx, workers, over)
	}
	if err == nil && len(workers) > 0 && !over.used() {
		out, err = workers[0].save(ctx)
	}
	return out, endOf(stats, 0), err
}

// states implements source.
func (r *remoteSource) states(
	ctx context.Context, q *prepared, module *registry.Version, over *overflow,
) (*savedGroups, wire.End, error) {
	out, given := &savedGroups{}, 0
	var stopped error
	c := r.client()
	if optionsOf(ctx).noCache {
		c = c.Fresh()
	}
	spill := func() error {
		err := over.add(ctx, 0, given, out, module.StateBytes())
		given++
		*out = savedGroups{keys: out.keys[:0], counts: out.counts[:0], states: out.states[:0]}
		return fromConsumer(err)
	}
	end, err := c.States(ctx, q.Query, func(states []wire.GroupState) error {
		r.noteHeard()
		if stopped = out.add(module, states); stopped == nil && out.bytes() > heldStateBytes {
			stopped = spill()
		}
		return stopped
	})
	if stopped != nil {
		return nil, end, stopped
	}
	end, err = r.complete(ctx, end, err)
	if err == nil && given > 0 {
		err = spill()
	}
	return out, end, err
}

// heldStateBytes is how much of the states of another node is buffered before they are spilled.
const heldStateBytes = 8 << 20

// keyBytes is the size of a group without its state: its key and its count.
const keyBytes = int(unsafe.Sizeof(groupKey{})) + 8

// add appends states of another node.
func (s *savedGroups) add(module *registry.Version, states []wire.GroupState) error {
	size := module.StateBytes()
	for i := range states {
		from := &states[i]
		if size > 0 && len(from.State) != size {
			return &wire.Error{Kind: wire.KindPluginFailed, Message: fmt.Sprintf(
				"a state of %s has %d bytes, not %d: the nodes do not run the same module",
				module.Name, len(from.State), size)}
		}
		s.append(size, groupKey{cid: from.CID, mid: from.MID, moid: from.MOID, cap: from.CapNs,
			predecessor: from.Before}, from.Records, from.State)
	}
	return nil
}

// bytes returns the memory of s.
func (s *savedGroups) bytes() int { return len(s.states) + len(s.keys)*keyBytes }

// append appends a group; size is that of a state, 0 if sizes vary.
func (s *savedGroups) append(size int, k groupKey, count uint64, state []byte) {
	s.keys, s.counts = append(s.keys, k), append(s.counts, count)
	if size == 0 {
		s.states = binary.LittleEndian.AppendUint32(s.states, uint32(len(state)))
	}
	s.states = append(s.states, state...)
}

// each emits the states one by one; they alias those of s.
func (s *savedGroups) each(module *registry.Version, emit func(wire.GroupState) error) error {
	size, rest := module.StateBytes(), s.states
	for i, k := range s.keys {
		n := size
		if size == 0 {
			n, rest = int(binary.LittleEndian.Uint32(rest)), rest[4:]
		}
		err := emit(wire.GroupState{CID: k.cid, MID: k.mid, MOID: k.moid, CapNs: k.cap,
			Before: k.predecessor, Records: s.counts[i], State: rest[:n]})
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// statesOfAll merges the states of all sources in the order of sources, so that the same query over
// the same data has the same answer. If they exceed memory, all of them are in the overflow. The
// caller closes the aggregator, which may be nil, also with an error.
func (n *Node) statesOfAll(
	ctx context.Context, q *prepared, module *registry.Version, over *overflow,
) (*aggregator, wire.End, error) {
	pinned := q.pinned(module)
	var mu sync.Mutex
	var parts []*overflow // of all sources, also of failed ones
	defer func() {
		for _, o := range parts {
			o.close()
		}
	}()
	a, err := ask(ctx, n, askStates, &q.Box, func(ctx context.Context, s source) (
		part statesPart, end wire.End, err error,
	) {
		part.over = n.newOverflow(numberOfSource(s))
		mu.Lock()
		parts = append(parts, part.over)
		mu.Unlock()
		part.savedGroups, end, err = s.states(ctx, pinned, module, part.over)
		return part, end, err
	})
	if err != nil {
		return nil, wire.End{}, err
	}
	end := a.end()
	into, err := n.mergingOf(q.Query, module).make(ctx)
	if err != nil {
		return nil, end, err
	}
	said := a.complete()
	if !into.holds(said, n.heldGroups) {
		return into, end, overflowAll(ctx, said, over, module.StateBytes())
	}
	for _, from := range said {
		if len(from.keys) == 0 {
			continue
		}
		if err := into.merge(ctx, from.savedGroups); err != nil {
			return into, end, err
		}
	}
	return into, end, nil
}

// statesPart is the groups of an aggregate of one source: in memory, or in an overflow.
type statesPart struct {
	*savedGroups
	over *overflow
}

// numberOfSource returns a number that orders sources.
func numberOfSource(s source) int {
	switch s := s.(type) {
	case *localSource:
		return int(s.group)
	case *remoteSource:
		return int(s.groups[0])
	}
	return 0
}

// holds reports whether the states of sources certainly fit, with at most that many groups.
func (into *aggregator) holds(said []statesPart, most int) bool {
	groups, bytes := 0, int64(0)
	for _, from := range said {
		if from.over.used() {
			return false
		}
		groups += len(from.keys)
		bytes += int64(len(from.states))
	}
	return into.groups.all() || groups <= min(most, into.groups.max) &&
		(!into.guest.HeapStates() || into.guest.MemoryBytes()+bytes <= into.guest.MostBytes())
}

// overflowAll moves the states of sources to one overflow.
func overflowAll(ctx context.Context, said []statesPart, over *overflow, size int) error {
	for _, from := range said {
		if err := from.over.add(ctx, 0, 0, from.savedGroups, size); err != nil {
			return err
		}
		if err := over.take(ctx, from.over); err != nil {
			return err
		}
	}
	return nil
}

// States emits the groups of an aggregate as saved states, for a node that merges them with those
// of other nodes. What emit gets is not modified afterwards.
func (n *Node) States(
	ctx context.Context, q *record.Query, emit func(wire.GroupState) error,
) (wire.End, error) {
	p, err := n.prepareCall(ctx, q)
	if err != nil {
		return wire.End{}, err
	}
	defer p.done()
	ctx, leave, err := n.begin(ctx, q)
	if err != nil {
		return wire.End{}, err
	}
	defer leave()
	end, err := n.emitStates(ctx, &p.prepared, emit)
	if err != nil {
		n.failed(q, err)
	}
	return end, err
}

func (n *Node) emitStates(
	ctx context.Context, q *prepared, emit func(wire.GroupState) error,
) (end wire.End, err error) {
	module, err := n.plugins.UseCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err != nil {
		return wire.End{}, err
	}
	defer n.plugins.Release(module)
	if module.LinksPredecessors() {
		if err := checkPredecessors(q.Query); err != nil {
			return wire.End{}, err
		}
	}
	ctx, done := n.owned(ctx, q.Query)
	defer done()
	over := n.newOverflow(0)
	defer over.close()
	all := new(savedGroups)
	if only := n.routes.Load().single; only != nil {
		all, end, err = only.states(ctx, q, module, over)
	} else {
		var into *aggregator
		if into, end, err = n.statesOfAll(ctx, q, module, over); into != nil {
			defer closeAll([]*aggregator{into})
		}
		if err == nil && !over.used() {
			all, err = into.save(ctx)
		}
	}
	if err != nil {
		return end, err
	}
	if !over.used() {
		end.Rows = uint64(len(all.keys))
		return end, all.each(module, emit)
	}
	m := n.mergingOf(q.Query, module)
	m.linksPredecessors = false // the merging node does that
	m.done = func(ctx context.Context, a *aggregator) error {
		some, err := a.save(ctx)
		if err != nil {
			return err
		}
		return some.each(module, emit)
	}
	err = over.each(ctx, m)
	end.Rows = uint64(m.groups)
	return end, err
}
