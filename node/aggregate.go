package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// groupKey is the parts that an aggregate groups by; the others are 0.
type groupKey struct {
	cid, moid int32
	mid, cap  int64
}

func (k groupKey) compare(o groupKey) int {
	return cmp.Or(cmp.Compare(k.cid, o.cid), cmp.Compare(k.mid, o.mid),
		cmp.Compare(k.moid, o.moid), cmp.Compare(k.cap, o.cap))
}

// bucketStart returns the start of the bucket of a width that holds ns, also before 1970.
func bucketStart(ns, width int64) int64 {
	start := ns - ns%width
	if ns < 0 && start > ns {
		start -= width
	}
	return start
}

// groups numbers the groups that one worker meets.
type groups struct {
	by     record.GroupBy
	max    int
	ids    map[groupKey]uint32
	keys   []groupKey
	counts []uint64
}

func newGroups(by record.GroupBy, maxGroups int) *groups {
	return &groups{by: by, max: maxGroups, ids: map[groupKey]uint32{}}
}

func (g *groups) keyOf(b *record.Batch, i int) groupKey {
	var k groupKey
	if g.by.CID {
		k.cid = b.CID[i]
	}
	if g.by.MID {
		k.mid = b.MID[i]
	}
	if g.by.MOID {
		k.moid = b.MOID[i]
	}
	if width := g.by.CapBucketNs; width > 0 {
		k.cap = bucketStart(b.CapNs[i], width)
	}
	return k
}

func (g *groups) id(k groupKey) (uint32, error) {
	id, ok := g.ids[k]
	if ok {
		return id, nil
	}
	if len(g.keys) >= g.max {
		return 0, &wire.Error{Kind: wire.KindPluginLimit, Message: fmt.Sprintf(
			"more than %d groups; group by less or narrow the box", g.max)}
	}
	id = uint32(len(g.keys))
	g.ids[k] = id
	g.keys = append(g.keys, k)
	g.counts = append(g.counts, 0)
	return id, nil
}

// number appends the group of each row to dst. Neighbouring rows are usually of one group.
func (g *groups) number(b *record.Batch, dst []uint32) ([]uint32, error) {
	var last groupKey
	var id uint32
	for i := range b.Len() {
		k := g.keyOf(b, i)
		if i == 0 || k != last {
			var err error
			if id, err = g.id(k); err != nil {
				return nil, err
			}
			last = k
		}
		g.counts[id]++
		dst = append(dst, id)
	}
	return dst, nil
}

// aggregator is one worker's part of an aggregate.
type aggregator struct {
	groups *groups
	guest  *wasmhost.Aggregate
	gid    []uint32
}

func (a *aggregator) add(ctx context.Context, b *record.Batch) error {
	var err error
	if a.gid, err = a.groups.number(b, a.gid[:0]); err != nil {
		return err
	}
	return a.guest.Add(ctx, b, a.gid, len(a.groups.keys))
}

// Aggregate runs an aggregate to its end and returns its groups by key, as many as the limit
// allows. A query that finds nothing has no groups.
func (n *Node) Aggregate(ctx context.Context, q *record.Query) ([]wire.Group, wire.End, error) {
	if err := n.begin(q); err != nil {
		return nil, wire.End{}, err
	}
	defer func() { <-n.queries }()
	groups, end, err := n.aggregate(ctx, q)
	if err != nil {
		n.failed(q, err)
	}
	return groups, end, err
}

func (n *Node) aggregate(ctx context.Context, q *record.Query) ([]wire.Group, wire.End, error) {
	module, err := n.plugins.useCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err != nil {
		return nil, wire.End{}, err
	}
	defer n.plugins.release(module)
	var workers []*aggregator
	defer func() {
		for _, a := range workers {
			_ = a.guest.Close() // its failures were returned by the calls
		}
	}()
	stats, err := n.scan(ctx, q, func(int) (store.Sink, error) {
		guest, err := module.module.NewAggregate(ctx, q.Aggregate.Params)
		if err != nil {
			return nil, err
		}
		a := &aggregator{groups: newGroups(q.GroupBy, n.opt.MaxGroups), guest: guest}
		workers = append(workers, a)
		return func(b *record.Batch) error { return a.add(ctx, b) }, nil
	})
	if err != nil || len(workers) == 0 {
		return nil, endOf(stats, 0), err
	}
	out, err := mergeWorkers(ctx, workers, q.Limit)
	return out, endOf(stats, uint64(len(out))), err
}

// mergeWorkers merges all states into the first worker's and finishes them.
func mergeWorkers(ctx context.Context, workers []*aggregator, limit uint64) ([]wire.Group, error) {
	into := workers[0]
	for _, from := range workers[1:] {
		if len(from.groups.keys) == 0 {
			continue
		}
		states, err := from.guest.States(ctx)
		if err != nil {
			return nil, err
		}
		into.gid = into.gid[:0]
		for i, k := range from.groups.keys {
			id, err := into.groups.id(k)
			if err != nil {
				return nil, err
			}
			into.groups.counts[id] += from.groups.counts[i]
			into.gid = append(into.gid, id)
		}
		if err := into.guest.Merge(ctx, states, into.gid); err != nil {
			return nil, err
		}
	}
	if len(into.groups.keys) == 0 {
		return nil, nil
	}
	results, err := into.guest.Finish(ctx)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(into.groups.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return into.groups.keys[a].compare(into.groups.keys[b])
	})
	if limit > 0 && uint64(len(order)) > limit {
		order = order[:limit]
	}
	out := make([]wire.Group, 0, len(order))
	for _, i := range order {
		k := into.groups.keys[i]
		out = append(out, wire.Group{CID: k.cid, MID: k.mid, MOID: k.moid, CapNs: k.cap,
			Records: into.groups.counts[i], Result: bytes.Clone(results[i])})
	}
	return out, nil
}
