package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Aggregate runs an aggregate and returns its groups in the order of keys, up to the limit. A query
// that finds nothing has no groups.
func (e *Engine) Aggregate(
	ctx context.Context, options request.Options, q *record.Query,
) ([]wire.Group, wire.End, error) {
	p, err := e.prepareCall(ctx, options, q)
	if err != nil {
		return nil, wire.End{}, err
	}
	defer p.Done()
	return e.aggregate(ctx, &p.prepared)
}

func (e *Engine) aggregate(ctx context.Context, q *prepared) ([]wire.Group, wire.End, error) {
	found, err := e.findGroups(ctx, q)
	if err != nil {
		return nil, wire.End{}, err
	}
	defer found.close()
	var out []wire.Group
	bytes := int64(0)
	end, err := found.Each(ctx, func(some []wire.Group) error {
		for i := range some {
			bytes += int64(aggregate.KeyBytes + len(some[i].Result))
		}
		if found.over.Used() && bytes > e.Limits.ResultBytes {
			return nodeerror.ErrTooLarge
		}
		if out == nil {
			out = slices.Clip(some) // mostly there are no more
			return nil
		}
		out = append(out, some...)
		return nil
	})
	return out, end, err
}

// AggregateResult are the groups of an aggregate: finished, or in an overflow if they exceed
// memory.
type AggregateResult struct {
	engine *Engine
	q      *prepared
	module *registry.Version
	over   *aggregate.Overflow
	groups []wire.Group
	fold   *aggregate.Folding // of groups of one series each in the overflow, else nil
	limit  uint64             // of the answer
	end    wire.End
	leave  func()
}

// Groups runs the aggregate of a query until its groups are complete. They are valid until Done.
func (a *Admitted) Groups(ctx context.Context) (*AggregateResult, error) {
	found, err := a.engine.findGroups(ctx, &a.prepared)
	if err == nil {
		a.cleanUp = found.close
	}
	return found, err
}

// Spilled reports whether the groups exceed memory, so that Each reads them from disk.
func (f *AggregateResult) Spilled() bool { return f.over.Used() }

// End returns the end of the answer without its number of groups.
func (f *AggregateResult) End() *wire.End { return &f.end }

// findGroups runs an aggregate until its groups are complete. They must be closed.
func (e *Engine) findGroups(ctx context.Context, q *prepared) (*AggregateResult, error) {
	ctx, q, share, err := e.begin(ctx, q)
	if err != nil {
		return nil, err
	}
	f := &AggregateResult{engine: e, q: q, leave: share.End, limit: q.Limit,
		over: aggregate.NewOverflow(e.Limits.Spill, 0)}
	f.module, err = e.plugins.UseCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err == nil {
		err = f.find(ctx)
	}
	if err != nil {
		e.notePluginFailure(q.Query, err)
		f.close()
		return nil, err
	}
	return f, nil
}

// close frees the groups.
func (f *AggregateResult) close() {
	f.over.Close()
	if f.module != nil {
		f.engine.plugins.Unpin(f.module)
	}
	f.leave()
}

func (f *AggregateResult) find(ctx context.Context) error {
	e, q, link := f.engine, f.q, f.module.LinksPredecessors()
	cal, err := calendar.ForWindow(q.GroupBy.Window)
	if err == nil && link {
		err = aggregate.CheckPredecessors(q.Query)
		q = f.bySeries(q)
	}
	if err != nil {
		return err
	}
	q, done := e.withGuestOwner(q)
	defer done()
	q.values = aggregate.NewValues(q.GroupBy)
	f.q = q
	var workers []*aggregate.Worker
	if only := e.routes.Load().single; only != nil {
		var stats store.ScanStats
		workers, stats, err = only.aggregateWorkers(ctx, q, f.module, cal, f.over, false)
		f.end = endOf(stats, 0)
		if err == nil {
			err = aggregate.MergeWorkers(ctx, workers, f.over)
		}
	} else {
		var into *aggregate.Worker
		if into, f.end, err = e.statesOfAll(ctx, q, f.module, f.over); into != nil {
			workers = []*aggregate.Worker{into}
		}
	}
	defer aggregate.CloseAll(workers)
	if err != nil || len(workers) == 0 {
		return err
	}
	if f.over.Used() {
		return f.over.InOrder(ctx, q.values)
	}
	workers[0].InOrder(q.values)
	f.groups, err = workers[0].Finish(ctx, q.values, q.Limit, link)
	if f.fold != nil && err == nil {
		err = f.fold.Add(f.groups)
		f.groups, f.fold = f.fold.Groups(), nil
	}
	return err
}

// bySeries returns the query for groups of one series each, which are folded, if its own are of
// more.
func (f *AggregateResult) bySeries(q *prepared) *prepared {
	fold, by := aggregate.NewFolding(q.Query, f.module.Doc, f.engine.Limits.MaxGroups)
	if fold == nil {
		return q
	}
	f.fold = fold
	asked := *q.Query
	asked.GroupBy, asked.Limit = by, 0
	return q.with(&asked)
}

// Each passes the groups to emit in the order of keys, up to the limit, several at a time.
func (f *AggregateResult) Each(
	ctx context.Context, emit func(some []wire.Group) error,
) (end wire.End, err error) {
	f.end.Rows = 0
	hand := func(some []wire.Group) error {
		if left := f.limit - f.end.Rows; f.limit > 0 && uint64(len(some)) > left {
			some = some[:left]
		}
		f.end.Rows += uint64(len(some))
		err := emit(some)
		if err == nil && f.limit > 0 && f.end.Rows == f.limit {
			err = ErrLimitReached
		}
		return err
	}
	if f.fold == nil {
		err = f.each(ctx, hand)
	} else if err = f.each(ctx, f.fold.Add); err == nil {
		if groups := f.fold.Groups(); len(groups) > 0 {
			err = hand(groups)
		}
	}
	if errors.Is(err, ErrLimitReached) {
		err = nil
	}
	return f.end, err
}

// each passes the groups that were found to hand in the order of keys, several at a time.
func (f *AggregateResult) each(
	ctx context.Context, hand func(some []wire.Group) error,
) (err error) {
	if f.over.Used() {
		q, done := f.engine.withGuestOwner(f.q)
		defer done()
		m := f.engine.mergingOf(q, f.module)
		m.Done = func(ctx context.Context, a *aggregate.Worker) error {
			some, err := a.Finish(ctx, f.q.values, 0, m.LinksPredecessors)
			if err != nil {
				return err
			}
			return hand(some)
		}
		if err = f.over.Each(ctx, m); err != nil && !errors.Is(err, ErrLimitReached) {
			f.engine.notePluginFailure(f.q.Query, err)
		}
		return err
	}
	if len(f.groups) > 0 {
		err = hand(f.groups)
	}
	return err
}

// mergingOf returns what merges the groups of a query; the caller sets Done.
func (e *Engine) mergingOf(q *prepared, module *registry.Version) *aggregate.Merging {
	return aggregate.NewMerging(q.Query, q.guestOwner, module, e.Limits.MaxGroups,
		e.Limits.MemoryGroups)
}

// partialCacheOf returns the use that an aggregate makes of the partial cache.
func (e *Engine) partialCacheOf(
	options request.Options, module *registry.Version,
) *aggregate.PartialCache {
	cache := e.partialCache
	if options.NoCache {
		cache = nil
	}
	return aggregate.NewPartialCache(cache, module)
}

// aggregateWorkers runs the scan of an aggregate, and returns its workers in order, with their
// groups. The caller closes them, also after an error. With several sources predecessors are always
// read, as another source may find rows.
func (l *localSource) aggregateWorkers(
	ctx context.Context, q *prepared, module *registry.Version, cal *calendar.Calendar,
	over *aggregate.Overflow, always bool,
) (workers []*aggregate.Worker, stats store.ScanStats, err error) {
	columns := module.Columns | GroupColumns(q.GroupBy)
	partialCache := l.engine.partialCacheOf(q.options, module)
	keyed, devices := q.with(q.Query), (*aggregate.DeviceValues)(nil)
	if q.values != nil {
		keyed.foundValues = func(of *store.DeviceValues) (err error) {
			devices, err = q.values.Found(of)
			return err
		}
	}
	stats, err = l.scanPartials(ctx, keyed, columns, partialCache, func(worker int) (sinks, error) {
		groups := aggregate.NewGroupTable(q.GroupBy, cal, devices, l.engine.Limits.MemoryGroups)
		a, err := aggregate.NewWorker(ctx, worker, q.Query, q.guestOwner, module, groups, over)
		if err != nil {
			return sinks{}, err
		}
		workers = append(workers, a)
		s := sinks{rows: func(b *record.Batch) error { return a.Add(ctx, b) },
			payloadPrefix: a.PayloadPrefix(),
			payloadBuffer: a.PayloadBuffer(ctx)}
		if q.Moving != "" { // not all rows that the box has of a block are asked for
			return s, nil
		}
		if s.partials = a.UsePartials(ctx, partialCache); s.partials != nil {
			s.done = a.CloseIfEmpty
		}
		return s, nil
	})
	aggregate.InOrder(workers)
	if err == nil {
		err = aggregate.MergeMorsels(ctx, workers)
	}
	if err == nil && module.LinksPredecessors() {
		before := predecessorScan{l, q, module, devices, over, always}
		workers, err = before.read(ctx, stats.HorizonNs, workers)
	}
	return workers, stats, err
}
