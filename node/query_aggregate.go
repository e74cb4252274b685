package node

import (
	"context"
	"errors"

	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Aggregate runs an aggregate and returns its groups in the order of keys, up to the limit. A query
// that finds nothing has no groups.
func (n *Node) Aggregate(ctx context.Context, q *record.Query) ([]wire.Group, wire.End, error) {
	p, err := n.prepareCall(ctx, q)
	if err != nil {
		return nil, wire.End{}, err
	}
	defer p.done()
	return n.aggregate(ctx, &p.prepared)
}

func (n *Node) aggregate(ctx context.Context, q *prepared) ([]wire.Group, wire.End, error) {
	found, err := n.findGroups(ctx, q)
	if err != nil {
		return nil, wire.End{}, err
	}
	defer found.close()
	var out []wire.Group
	bytes := int64(0)
	end, err := found.each(ctx, func(some []wire.Group) error {
		for i := range some {
			bytes += int64(aggregate.KeyBytes + len(some[i].Result))
		}
		if found.over.Used() && bytes > n.opt.ResultBytes {
			return errTooLarge
		}
		out = append(out, some...)
		return nil
	})
	return out, end, err
}

// foundGroups are the groups of an aggregate: finished, or in an overflow if they exceed memory.
type foundGroups struct {
	node   *Node
	q      *prepared
	module *registry.Version
	over   *aggregate.Overflow
	groups []wire.Group
	end    wire.End
	leave  func()
}

// findGroups runs an aggregate until its groups are complete. They must be closed.
func (n *Node) findGroups(ctx context.Context, q *prepared) (*foundGroups, error) {
	ctx, leave, err := n.begin(ctx, q.Query)
	if err != nil {
		return nil, err
	}
	f := &foundGroups{node: n, q: q, leave: leave, over: aggregate.NewOverflow(n.spill, 0)}
	f.module, err = n.plugins.UseCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err == nil {
		err = f.find(ctx)
	}
	if err != nil {
		n.failed(q.Query, err)
		f.close()
		return nil, err
	}
	return f, nil
}

// close releases the groups.
func (f *foundGroups) close() {
	f.over.Close()
	if f.module != nil {
		f.node.plugins.Release(f.module)
	}
	f.leave()
}

func (f *foundGroups) find(ctx context.Context) error {
	n, q, joins := f.node, f.q, f.module.LinksPredecessors()
	cal, err := calendar.ForWindow(q.GroupBy.Window)
	if err == nil && joins {
		err = aggregate.CheckPredecessors(q.Query)
	}
	if err != nil {
		return err
	}
	ctx, done := n.owned(ctx, q.Query)
	defer done()
	var workers []*aggregate.Worker
	if only := n.routes.Load().single; only != nil {
		var stats store.ScanStats
		workers, stats, err = only.fold(ctx, q, f.module, cal, f.over, false)
		f.end = endOf(stats, 0)
		if err == nil {
			err = aggregate.MergeWorkers(ctx, workers, f.over)
		}
	} else {
		var into *aggregate.Worker
		if into, f.end, err = n.statesOfAll(ctx, q, f.module, f.over); into != nil {
			workers = []*aggregate.Worker{into}
		}
	}
	defer aggregate.CloseAll(workers)
	if err != nil || len(workers) == 0 || f.over.Used() {
		return err
	}
	f.groups, err = workers[0].Finish(ctx, q.Limit, joins)
	return err
}

// each passes the groups to emit in the order of keys, up to the limit, several at a time.
func (f *foundGroups) each(
	ctx context.Context, emit func(some []wire.Group) error,
) (end wire.End, err error) {
	f.end.Rows = 0
	hand := func(some []wire.Group) error {
		if left := f.q.Limit - f.end.Rows; f.q.Limit > 0 && uint64(len(some)) > left {
			some = some[:left]
		}
		f.end.Rows += uint64(len(some))
		err := emit(some)
		if err == nil && f.q.Limit > 0 && f.end.Rows == f.q.Limit {
			err = errEnough
		}
		return err
	}
	if f.over.Used() {
		var done func()
		ctx, done = f.node.owned(ctx, f.q.Query)
		defer done()
		m := f.node.mergingOf(f.q.Query, f.module)
		m.Done = func(ctx context.Context, a *aggregate.Worker) error {
			some, err := a.Finish(ctx, 0, m.LinksPredecessors)
			if err != nil {
				return err
			}
			return hand(some)
		}
		if err = f.over.Each(ctx, m); err != nil && !errors.Is(err, errEnough) {
			f.node.failed(f.q.Query, err)
		}
	} else if len(f.groups) > 0 {
		err = hand(f.groups)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return f.end, err
}

// mergingOf returns what merges the groups of a query; the caller sets Done.
func (n *Node) mergingOf(q *record.Query, module *registry.Version) *aggregate.Merging {
	return aggregate.NewMerging(q, module, n.opt.MaxGroups, n.heldGroups)
}

// partialCacheOf returns the use that an aggregate makes of the partial cache.
func (n *Node) partialCacheOf(
	ctx context.Context, module *registry.Version,
) *aggregate.PartialCache {
	cache := n.states
	if optionsOf(ctx).noCache {
		cache = nil
	}
	return aggregate.NewPartialCache(cache, module)
}

// fold runs the scan of an aggregate, and returns its workers in order, with their groups. The
// caller closes them, also after an error. With several sources predecessors are always read, as
// another source may find rows.
func (n *localSource) fold(
	ctx context.Context, q *prepared, module *registry.Version, cal *calendar.Calendar,
	over *aggregate.Overflow, always bool,
) (workers []*aggregate.Worker, stats store.ScanStats, err error) {
	parts := module.Parts | groupParts(q.GroupBy)
	keep := n.partialCacheOf(ctx, module)
	stats, err = n.scanApart(ctx, q, parts, keep, func(worker int) (sinks, error) {
		groups := aggregate.NewGroups(q.GroupBy, cal, n.heldGroups)
		a, err := aggregate.NewWorker(ctx, worker, q.Query, module, groups, over)
		if err != nil {
			return sinks{}, err
		}
		workers = append(workers, a)
		s := sinks{rows: func(b *record.Batch) error { return a.Add(ctx, b) }, front: a.Front(),
			room: a.PayloadBuffer(ctx)}
		if s.parts = a.UsePartials(ctx, keep); s.parts != nil {
			s.leave = a.CloseIfEmpty
		}
		return s, nil
	})
	aggregate.InOrder(workers)
	if err == nil {
		err = aggregate.MergeLots(ctx, workers)
	}
	if err == nil && module.LinksPredecessors() {
		workers, err = n.readPredecessors(ctx, q, module, stats.HorizonNs, workers, over, always)
	}
	return workers, stats, err
}

const (
	// maxGroupsInMemory is how many groups a worker has in memory at most: keys and their table
	// take some 64 bytes each.
	maxGroupsInMemory = 1 << 20
	heldGroupShare    = 1 << 13 // of the memory of the node, in bytes
)

func heldGroups(opt *Options) int {
	held := memory.Total(opt.MemoryBytes).Part(heldGroupShare, maxGroupsInMemory)
	return min(opt.MaxGroups, int(held))
}
