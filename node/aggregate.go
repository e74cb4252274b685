package node

import (
	"bytes"
	"context"
	"errors"
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

	over  *overflow // takes groups that do not fit; nil: they fail
	given int       // how often it took some
	// again makes an instance in place of one whose states grow.
	again func(ctx context.Context) (*wasmhost.Aggregate, error)

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
	return a.addGroups(ctx, b)
}

// addGroups adds rows of many groups, and gives groups away when they do not fit.
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
				err = a.giveAway(ctx)
			}
			return err
		}
		rest := new(record.Batch) // a copy: payloads may lie in memory of the instance
		rest.AppendRows(b, done, b.Len())
		if done > 0 {
			err := a.guest.Add(ctx, b.Head(done), a.gid, len(a.groups.keys))
			if err != nil {
				return err
			}
		}
		if err := a.giveAway(ctx); err != nil {
			return err
		}
		b = rest
	}
}

// giveAway gives all groups to the overflow.
func (a *aggregator) giveAway(ctx context.Context) error {
	if len(a.groups.keys) == 0 {
		return nil
	}
	some, err := a.save(ctx)
	if err == nil {
		err = a.over.add(ctx, a.worker, a.given, some, a.stateBytes())
	}
	if err != nil {
		return err
	}
	a.given++
	a.groups.forget()
	if !a.guest.Grows() {
		a.guest.Forget()
		return nil
	}
	a.closing.Lock()
	defer a.closing.Unlock()
	_ = a.guest.Close() // it has failed in no call
	guest, err := a.again(ctx)
	if err == nil {
		a.guest = guest
	}
	return err
}

// stateBytes returns the size of a state that is saved, 0 where each has its own.
func (a *aggregator) stateBytes() int {
	if a.guest.Grows() {
		return 0
	}
	return a.guest.StateSize()
}

// Aggregate runs an aggregate to its end and returns its groups by key, as many as the limit
// allows. A query that finds nothing has no groups.
func (n *Node) Aggregate(ctx context.Context, q *record.Query) ([]wire.Group, wire.End, error) {
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

// foundGroups are the groups of an aggregate: finished, or in an overflow where they do not fit
// into memory.
type foundGroups struct {
	node   *Node
	q      *record.Query
	module *pluginVersion
	over   *overflow
	groups []wire.Group
	end    wire.End
	leave  func()
}

// findGroups runs an aggregate to where its groups are known. They are to be closed.
func (n *Node) findGroups(ctx context.Context, q *record.Query) (*foundGroups, error) {
	ctx, leave, err := n.begin(ctx, q)
	if err != nil {
		return nil, err
	}
	f := &foundGroups{node: n, q: q, leave: leave, over: n.newOverflow(0)}
	f.module, err = n.plugins.useCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err == nil {
		err = f.find(ctx)
	}
	if err != nil {
		n.failed(q, err)
		f.close()
		return nil, err
	}
	return f, nil
}

// close ends the use of the groups.
func (f *foundGroups) close() {
	f.over.close()
	if f.module != nil {
		f.node.plugins.release(f.module)
	}
	f.leave()
}

func (f *foundGroups) find(ctx context.Context) error {
	n, q, joins := f.node, f.q, f.module.joins()
	cal, err := calendarOf(q.GroupBy)
	if err == nil && joins {
		err = checkJoin(q)
	}
	if err != nil {
		return err
	}
	ctx, done := n.owned(ctx, q)
	defer done()
	var workers []*aggregator
	if only := n.layout.Load().only; only != nil {
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

// each hands the groups to emit by key, as many as the limit allows, some at a time.
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
		ctx, done = f.node.owned(ctx, f.q)
		defer done()
		m := f.node.mergingOf(f.q, f.module)
		m.done = func(ctx context.Context, a *aggregator) error {
			some, err := a.finish(ctx, 0, m.joins)
			if err != nil {
				return err
			}
			return hand(some)
		}
		if err = f.over.each(ctx, m); err != nil && !errors.Is(err, errEnough) {
			f.node.failed(f.q, err)
		}
	} else if len(f.groups) > 0 {
		err = hand(f.groups)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return f.end, err
}

// mergingOf merges groups of a question; what becomes of them is the caller's to say.
func (n *Node) mergingOf(q *record.Query, module *pluginVersion) *merging {
	return &merging{joins: module.joins(), max: n.opt.MaxGroups,
		most: min(chunkGroups, n.heldGroups),
		make: func(ctx context.Context) (*aggregator, error) {
			guest, err := module.module.NewAggregate(ctx, q.Aggregate.Params)
			if err != nil {
				return nil, err
			}
			return &aggregator{guest: guest,
				groups: newGroups(q.GroupBy, nil, guest.Capacity())}, nil
		}}
}

// fold runs the scan of an aggregate, and returns what each worker has of its groups, in the order
// of workers, which the caller closes, also with an error. Whoever knows not whether others find
// something always looks back.
func (n *local) fold(
	ctx context.Context, q *record.Query, module *pluginVersion, cal *calendar.Calendar,
	over *overflow, always bool,
) (workers []*aggregator, stats store.ScanStats, err error) {
	parts := module.parts | groupParts(q.GroupBy)
	keep := n.keepingOf(ctx, module)
	stats, err = n.scanApart(ctx, q, parts, keep, func(worker int) (sinks, error) {
		a, err := n.newAggregator(ctx, q, module, newGroups(q.GroupBy, cal, n.heldGroups), over)
		if err != nil {
			return sinks{}, err
		}
		a.worker = worker
		workers = append(workers, a)
		guest := a.guest
		s := sinks{rows: func(b *record.Batch) error { return a.add(ctx, b) }, front: guest.Front()}
		if a.groups.all() || !guest.Grows() { // else it may be closed while rows lie there
			s.room = func(beside bool) []byte { return halfOf(guest.Room(ctx), beside) }
		}
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
		workers, err = n.lookBack(ctx, q, module, stats.HorizonNs, workers, over, always)
	}
	return workers, stats, err
}

// newAggregator returns what aggregates rows of groups, which it gives to the overflow as often as
// they do not fit.
func (n *local) newAggregator(
	ctx context.Context, q *record.Query, module *pluginVersion, g *groups, over *overflow,
) (*aggregator, error) {
	again := func(ctx context.Context) (*wasmhost.Aggregate, error) {
		return module.module.NewAggregate(ctx, q.Aggregate.Params)
	}
	guest, err := again(ctx)
	if err != nil {
		return nil, err
	}
	g.max = min(g.max, guest.Capacity())
	return &aggregator{guest: guest, groups: g, over: over, again: again}, nil
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

// mergeWorkers merges all states into the first worker's, or gives them to the overflow when some
// are there or they may not fit.
func mergeWorkers(ctx context.Context, workers []*aggregator, over *overflow) error {
	for i, from := range workers {
		into := workers[0]
		if !over.used() && (i == 0 || len(from.groups.keys) == 0) {
			continue
		}
		if over.used() || !into.fits(from) {
			if err := errors.Join(into.giveAway(ctx), from.giveAway(ctx)); err != nil {
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

// fits reports whether the groups of another worker are sure to fit as well. One group is all that
// there is, and has to.
func (into *aggregator) fits(from *aggregator) bool {
	most := into.guest.MostBytes()
	return into.groups.all() || len(into.groups.keys)+len(from.groups.keys) <= into.groups.max &&
		(!into.guest.Grows() || into.guest.MemoryBytes()+from.guest.MemoryBytes() <= most+most/2)
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
