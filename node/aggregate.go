package node

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// aggregator is one worker's part of an aggregate.
type aggregator struct {
	worker int
	groups *groups
	guest  *wasmhost.Aggregate
	gid    []uint32
	parts  *parts // nil where it takes none

	closing sync.Mutex
	closed  bool // guarded by closing
}

// leave closes the instance of a worker whose lots hold all that came of its rows, while others
// may still be at work.
func (a *aggregator) leave() {
	if len(a.groups.keys) == 0 {
		a.close()
	}
}

func (a *aggregator) close() {
	a.closing.Lock()
	defer a.closing.Unlock()
	if !a.closed {
		a.closed = true
		_ = a.guest.Close() // its failures were returned by the calls
	}
}

func (a *aggregator) add(ctx context.Context, b *record.Batch) error {
	if a.parts != nil && (a.parts.open || !a.guest.Exact()) {
		return a.parts.add(b)
	}
	if a.groups.all() {
		if _, err := a.groups.id(groupKey{before: a.groups.before}); err != nil {
			return err
		}
		a.groups.counts[0] += uint64(b.Len())
		return a.guest.Add(ctx, b, nil, 1)
	}
	var err error
	if a.gid, err = a.groups.number(b, a.gid[:0]); err != nil {
		return err
	}
	return a.guest.Add(ctx, b, a.gid, len(a.groups.keys))
}

// Aggregate runs an aggregate to its end and returns its groups by key, as many as the limit
// allows. A query that finds nothing has no groups.
func (n *Node) Aggregate(ctx context.Context, q *record.Query) ([]wire.Group, wire.End, error) {
	ctx, err := n.begin(ctx, q)
	if err != nil {
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
	cal, err := calendarOf(q.GroupBy)
	if err != nil {
		return nil, wire.End{}, err
	}
	joins := module.joins()
	if joins {
		if err := checkJoin(q); err != nil {
			return nil, wire.End{}, err
		}
	}
	ctx, done := n.owned(ctx, q)
	defer done()
	only := n.layout.Load().only
	if only == nil {
		return n.groupsOfAll(ctx, q, module)
	}
	workers, stats, err := only.fold(ctx, q, module, cal, false)
	defer closeAll(workers)
	if err != nil || len(workers) == 0 {
		return nil, endOf(stats, 0), err
	}
	if err := mergeWorkers(ctx, workers); err != nil {
		return nil, endOf(stats, 0), err
	}
	out, err := workers[0].finish(ctx, q.Limit, joins)
	return out, endOf(stats, uint64(len(out))), err
}

// fold runs the scan of an aggregate, and returns what each worker has of its groups, in the order
// of workers, which the caller closes, also with an error. Whoever knows not whether others find
// something always looks back.
func (n *local) fold(
	ctx context.Context, q *record.Query, module *pluginVersion, cal *calendar.Calendar,
	always bool,
) (workers []*aggregator, stats store.ScanStats, err error) {
	parts := module.parts | groupParts(q.GroupBy)
	keep := n.keepingOf(ctx, module)
	stats, err = n.scanApart(ctx, q, parts, keep, func(worker int) (sinks, error) {
		guest, err := module.module.NewAggregate(ctx, q.Aggregate.Params)
		if err != nil {
			return sinks{}, err
		}
		a := &aggregator{worker: worker, guest: guest,
			groups: newGroups(q.GroupBy, cal, n.opt.MaxGroups)}
		workers = append(workers, a)
		s := sinks{rows: func(b *record.Batch) error { return a.add(ctx, b) }, front: guest.Front(),
			room: func(beside bool) []byte { return halfOf(guest.Room(ctx), beside) }}
		if a.parts = newParts(ctx, keep, a); a.parts != nil {
			s.parts, s.leave = a.parts, a.leave
		}
		return s, nil
	})
	inOrder(workers)
	if err == nil {
		err = mergeLots(ctx, workers)
	}
	if err == nil && module.joins() {
		workers, err = n.lookBack(ctx, q, module, stats.HorizonNs, workers, always)
	}
	return workers, stats, err
}

// inOrder sorts workers, as they come in whatever order they begin.
func inOrder(workers []*aggregator) {
	slices.SortFunc(workers, func(a, b *aggregator) int { return a.worker - b.worker })
}

// halfOf returns a half of a room, so that rows may lie in either.
func halfOf(room []byte, second bool) []byte {
	half := len(room) / 2
	if second {
		return room[half:]
	}
	return room[:half:half]
}

func closeAll(workers []*aggregator) {
	for _, a := range workers {
		a.close()
		if a.parts != nil {
			a.parts.giveBack()
			a.parts = nil
		}
	}
}

// mergeWorkers merges all states into the first worker's.
func mergeWorkers(ctx context.Context, workers []*aggregator) error {
	into := workers[0]
	for _, from := range workers[1:] {
		if len(from.groups.keys) == 0 {
			continue
		}
		saved, err := from.save(ctx)
		if err != nil {
			return err
		}
		if err := into.merge(ctx, saved); err != nil {
			return err
		}
	}
	return nil
}

// finish joins groups in the order of their keys if they ask for it, and returns their results.
func (into *aggregator) finish(
	ctx context.Context, limit uint64, joins bool,
) ([]wire.Group, error) {
	if len(into.groups.keys) == 0 {
		return nil, nil
	}
	order := make([]int, len(into.groups.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return into.groups.keys[a].compare(into.groups.keys[b])
	})
	if joins {
		if err := into.guest.Join(ctx, neighbours(into.groups.keys, order)); err != nil {
			return nil, err
		}
		order = slices.DeleteFunc(order, func(i int) bool { return into.groups.keys[i].before })
	}
	results, err := into.guest.Finish(ctx)
	if err != nil {
		return nil, err
	}
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
