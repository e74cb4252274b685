package node

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// aggregator is the part of one worker in an aggregate.
type aggregator struct {
	worker      int
	groups      *groups
	guest       *wasmhost.Aggregate
	gid         []uint32
	partialSink *partialSink // nil without fragments

	over    *overflow // of groups that exceed memory; nil: these are an error
	spilled int       // times that groups were spilled
	// newInstance replaces an instance whose states own heap memory, after a spill.
	newInstance func(ctx context.Context) (*wasmhost.Aggregate, error)

	closing sync.Mutex
	closed  bool // guarded by closing
}

// closeIfEmpty closes the instance of a worker that has no groups, only results of lots, while
// others may still run.
func (a *aggregator) closeIfEmpty() {
	if len(a.groups.keys) == 0 {
		a.close()
	}
}

func (a *aggregator) close() {
	a.closing.Lock()
	defer a.closing.Unlock()
	if !a.closed {
		a.closed = true
		_ = a.guest.Close() // calls have returned its failures
	}
}

func (a *aggregator) add(ctx context.Context, b *record.Batch) error {
	if a.partialSink != nil && (a.partialSink.open || !a.guest.OrderIndependent()) {
		return a.partialSink.add(b)
	}
	if a.groups.all() {
		if _, err := a.groups.id(groupKey{predecessor: a.groups.predecessors}); err != nil {
			return err
		}
		a.groups.counts[0] += uint64(b.Len())
		return a.guest.Add(ctx, b, nil, 1)
	}
	return a.addGroups(ctx, b)
}

// addGroups adds rows of many groups, and spills groups when they exceed memory.
func (a *aggregator) addGroups(ctx context.Context, b *record.Batch) (err error) {
	for {
		a.gid, err = a.groups.number(b, a.gid[:0])
		if err != nil && a.over == nil {
			return err
		}
		done := len(a.gid)
		if done == b.Len() {
			err := a.guest.Add(ctx, b, a.gid, len(a.groups.keys))
			if err == nil && a.over != nil && a.guest.Full() {
				err = a.spillGroups(ctx)
			}
			return err
		}
		rest := new(record.Batch) // a copy: payloads may be in memory of the instance
		rest.AppendRows(b, done, b.Len())
		if done > 0 {
			err := a.guest.Add(ctx, b.Head(done), a.gid, len(a.groups.keys))
			if err != nil {
				return err
			}
		}
		if err := a.spillGroups(ctx); err != nil {
			return err
		}
		b = rest
	}
}

// spillGroups moves all groups to the overflow.
func (a *aggregator) spillGroups(ctx context.Context) error {
	if len(a.groups.keys) == 0 {
		return nil
	}
	some, err := a.save(ctx)
	if err == nil {
		err = a.over.add(ctx, a.worker, a.spilled, some, a.stateBytes())
	}
	if err != nil {
		return err
	}
	a.spilled++
	a.groups.forget()
	if !a.guest.HeapStates() {
		a.guest.Forget()
		return nil
	}
	a.closing.Lock()
	defer a.closing.Unlock()
	_ = a.guest.Close() // no call of it has failed
	guest, err := a.newInstance(ctx)
	if err == nil {
		a.guest = guest
	}
	return err
}

// stateBytes returns the size of a saved state, 0 if sizes vary.
func (a *aggregator) stateBytes() int {
	if a.guest.HeapStates() {
		return 0
	}
	return a.guest.StateSize()
}

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
			bytes += int64(keyBytes + len(some[i].Result))
		}
		if found.over.used() && bytes > n.opt.ResultBytes {
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
	over   *overflow
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
	f := &foundGroups{node: n, q: q, leave: leave, over: n.newOverflow(0)}
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
	f.over.close()
	if f.module != nil {
		f.node.plugins.Release(f.module)
	}
	f.leave()
}

func (f *foundGroups) find(ctx context.Context) error {
	n, q, joins := f.node, f.q, f.module.LinksPredecessors()
	cal, err := calendarOf(q.GroupBy)
	if err == nil && joins {
		err = checkPredecessors(q.Query)
	}
	if err != nil {
		return err
	}
	ctx, done := n.owned(ctx, q.Query)
	defer done()
	var workers []*aggregator
	if only := n.routes.Load().single; only != nil {
		var stats store.ScanStats
		workers, stats, err = only.fold(ctx, q, f.module, cal, f.over, false)
		f.end = endOf(stats, 0)
		if err == nil {
			err = mergeWorkers(ctx, workers, f.over)
		}
	} else {
		var into *aggregator
		if into, f.end, err = n.statesOfAll(ctx, q, f.module, f.over); into != nil {
			workers = []*aggregator{into}
		}
	}
	defer closeAll(workers)
	if err != nil || len(workers) == 0 || f.over.used() {
		return err
	}
	f.groups, err = workers[0].finish(ctx, q.Limit, joins)
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
	if f.over.used() {
		var done func()
		ctx, done = f.node.owned(ctx, f.q.Query)
		defer done()
		m := f.node.mergingOf(f.q.Query, f.module)
		m.done = func(ctx context.Context, a *aggregator) error {
			some, err := a.finish(ctx, 0, m.linksPredecessors)
			if err != nil {
				return err
			}
			return hand(some)
		}
		if err = f.over.each(ctx, m); err != nil && !errors.Is(err, errEnough) {
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

// mergingOf returns what merges the groups of a query; the caller sets done.
func (n *Node) mergingOf(q *record.Query, module *registry.Version) *merging {
	return &merging{linksPredecessors: module.LinksPredecessors(), maxGroups: n.opt.MaxGroups,
		maxOfInstance: min(chunkGroups, n.heldGroups),
		make: func(ctx context.Context) (*aggregator, error) {
			guest, err := module.Module.NewAggregate(ctx, q.Aggregate.Params)
			if err != nil {
				return nil, err
			}
			return &aggregator{guest: guest,
				groups: newGroups(q.GroupBy, nil, guest.Capacity())}, nil
		}}
}

// fold runs the scan of an aggregate, and returns its workers in order, with their groups. The
// caller closes them, also after an error. With several sources predecessors are always read, as
// another source may find rows.
func (n *localSource) fold(
	ctx context.Context, q *prepared, module *registry.Version, cal *calendar.Calendar,
	over *overflow, always bool,
) (workers []*aggregator, stats store.ScanStats, err error) {
	parts := module.Parts | groupParts(q.GroupBy)
	keep := n.partialCacheOf(ctx, module)
	stats, err = n.scanApart(ctx, q, parts, keep, func(worker int) (sinks, error) {
		groups := newGroups(q.GroupBy, cal, n.heldGroups)
		a, err := n.newAggregator(ctx, q.Query, module, groups, over)
		if err != nil {
			return sinks{}, err
		}
		a.worker = worker
		workers = append(workers, a)
		guest := a.guest
		s := sinks{rows: func(b *record.Batch) error { return a.add(ctx, b) }, front: guest.Front()}
		if a.groups.all() || !guest.HeapStates() { // else it may be closed while rows are in it
			s.room = func(beside bool) []byte { return halfOf(guest.Room(ctx), beside) }
		}
		if a.partialSink = newPartialSink(ctx, keep, a); a.partialSink != nil {
			s.parts, s.leave = a.partialSink, a.closeIfEmpty
		}
		return s, nil
	})
	inOrder(workers)
	if err == nil {
		err = mergeLots(ctx, workers)
	}
	if err == nil && module.LinksPredecessors() {
		workers, err = n.readPredecessors(ctx, q, module, stats.HorizonNs, workers, over, always)
	}
	return workers, stats, err
}

// newAggregator returns an aggregator that spills groups to the overflow when they exceed memory.
func (n *localSource) newAggregator(
	ctx context.Context, q *record.Query, module *registry.Version, g *groups, over *overflow,
) (*aggregator, error) {
	again := func(ctx context.Context) (*wasmhost.Aggregate, error) {
		return module.Module.NewAggregate(ctx, q.Aggregate.Params)
	}
	guest, err := again(ctx)
	if err != nil {
		return nil, err
	}
	g.max = min(g.max, guest.Capacity())
	return &aggregator{guest: guest, groups: g, over: over, newInstance: again}, nil
}

// inOrder sorts workers by number; they begin in any order.
func inOrder(workers []*aggregator) {
	slices.SortFunc(workers, func(a, b *aggregator) int { return a.worker - b.worker })
}

// halfOf returns one half of a payload buffer.
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
		if a.partialSink != nil {
			a.partialSink.giveBack()
			a.partialSink = nil
		}
	}
}

// mergeWorkers merges all states into those of the first worker, or moves them to the overflow if
// it is in use or they may exceed memory.
func mergeWorkers(ctx context.Context, workers []*aggregator, over *overflow) error {
	for i, from := range workers {
		into := workers[0]
		if !over.used() && (i == 0 || len(from.groups.keys) == 0) {
			continue
		}
		if over.used() || !into.fits(from) {
			if err := errors.Join(into.spillGroups(ctx), from.spillGroups(ctx)); err != nil {
				return err
			}
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

// fits reports whether the groups of another worker certainly fit, too. A single group always does.
func (into *aggregator) fits(from *aggregator) bool {
	most := into.guest.MostBytes()
	return into.groups.all() || len(into.groups.keys)+len(from.groups.keys) <= into.groups.max &&
		(!into.guest.HeapStates() ||
			into.guest.MemoryBytes()+from.guest.MemoryBytes() <= most+most/2)
}

// finish links groups with their predecessors if the module needs that, and returns their results
// in the order of keys.
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
		err := into.guest.LinkPredecessors(ctx, predecessors(into.groups.keys, order))
		if err != nil {
			return nil, err
		}
		order = slices.DeleteFunc(order, func(i int) bool {
			return into.groups.keys[i].predecessor
		})
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
