package engine

import (
	"context"
	"sync"

	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// states implements source.
func (l *localSource) states(
	ctx context.Context, q *prepared, module *registry.Version, over *aggregate.Overflow,
) (*aggregate.States, wire.End, error) {
	cal, err := calendar.ForWindow(q.GroupBy.Window)
	if err != nil {
		return nil, wire.End{}, err
	}
	workers, stats, err := l.aggregateWorkers(ctx, q, module, cal, over, true)
	defer aggregate.CloseAll(workers)
	out := &aggregate.States{}
	if err == nil {
		err = aggregate.MergeWorkers(ctx, workers, over)
	}
	if err == nil && len(workers) > 0 && !over.Used() {
		out, err = workers[0].Save(ctx)
	}
	return out, endOf(stats, 0), err
}

// states implements source.
func (r *remoteSource) states(
	ctx context.Context, q *prepared, module *registry.Version, over *aggregate.Overflow,
) (*aggregate.States, wire.End, error) {
	out, given := &aggregate.States{}, 0
	var stopped error
	c := r.client()
	if q.options.NoCache {
		c = c.Fresh()
	}
	spill := func() error {
		err := over.Add(ctx, 0, given, out, module.StateBytes())
		given++
		out.Reset()
		return fromConsumer(err)
	}
	end, err := c.States(ctx, q.Query, func(states []wire.GroupState) error {
		r.noteHeard()
		stopped = out.Add(module, q.values, states)
		if stopped == nil && out.Bytes() > bufferedStateBytes {
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

// bufferedStateBytes is how much of the states of another node is buffered before they are spilled.
const bufferedStateBytes = 8 << 20

// statesOfAll merges the states of all sources in the order of sources, so that the same query over
// the same data has the same answer. If they exceed memory, all of them are in the overflow. The
// caller closes the aggregator, which may be nil, also with an error.
func (e *Engine) statesOfAll(
	ctx context.Context, q *prepared, module *registry.Version, over *aggregate.Overflow,
) (*aggregate.Worker, wire.End, error) {
	pinned := q.withPluginVersions(module)
	var mu sync.Mutex
	var parts []*aggregate.Overflow // of all sources, also of failed ones
	defer func() {
		for _, o := range parts {
			o.Close()
		}
	}()
	a, err := askSources(ctx, e, q.options, askStates, &q.Box, func(
		ctx context.Context, s source,
	) (part aggregate.Part, end wire.End, err error) {
		part.Over = aggregate.NewOverflow(e.Limits.Spill, numberOfSource(s))
		mu.Lock()
		parts = append(parts, part.Over)
		mu.Unlock()
		part.States, end, err = s.states(ctx, pinned, module, part.Over)
		return part, end, err
	})
	if err != nil {
		return nil, wire.End{}, err
	}
	end := a.end()
	into, err := e.mergingOf(q, module).NewInstance(ctx)
	if err != nil {
		return nil, end, err
	}
	return into, end, into.MergeParts(ctx, a.complete(), e.Limits.MemoryGroups, over,
		module.StateBytes())
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

// States emits the groups of an aggregate as saved states, for a node that merges them with those
// of other nodes. What emit gets is not modified afterwards.
func (e *Engine) States(
	ctx context.Context, options request.Options, q *record.Query,
	emit func(wire.GroupState) error,
) (wire.End, error) {
	permit, err := e.prepareCall(ctx, options, q)
	if err != nil {
		return wire.End{}, err
	}
	defer permit.Done()
	ctx, p, share, err := e.begin(ctx, &permit.prepared)
	if err != nil {
		return wire.End{}, err
	}
	defer share.End()
	end, err := e.emitStates(ctx, p, emit)
	if err != nil {
		e.notePluginFailure(q, err)
	}
	return end, err
}

func (e *Engine) emitStates(
	ctx context.Context, q *prepared, emit func(wire.GroupState) error,
) (end wire.End, err error) {
	module, err := e.plugins.UseCall(ctx, &q.Aggregate, plugin.KindAggregate)
	if err != nil {
		return wire.End{}, err
	}
	defer e.plugins.Unpin(module)
	if module.LinksPredecessors() {
		if err := aggregate.CheckPredecessors(q.Query); err != nil {
			return wire.End{}, err
		}
	}
	q, done := e.withGuestOwner(q)
	defer done()
	q.values = aggregate.NewValues(q.GroupBy)
	over := aggregate.NewOverflow(e.Limits.Spill, 0)
	defer over.Close()
	all := new(aggregate.States)
	if only := e.routes.Load().single; only != nil {
		all, end, err = only.states(ctx, q, module, over)
	} else {
		var into *aggregate.Worker
		if into, end, err = e.statesOfAll(ctx, q, module, over); into != nil {
			defer aggregate.CloseAll([]*aggregate.Worker{into})
		}
		if err == nil && !over.Used() {
			all, err = into.Save(ctx)
		}
	}
	if err != nil {
		return end, err
	}
	if !over.Used() {
		end.Rows = uint64(all.Len())
		return end, all.Each(module, q.values, emit)
	}
	m := e.mergingOf(q, module)
	m.LinksPredecessors = false // the merging node does that
	m.Done = func(ctx context.Context, a *aggregate.Worker) error {
		some, err := a.Save(ctx)
		if err != nil {
			return err
		}
		return some.Each(module, q.values, emit)
	}
	err = over.Each(ctx, m)
	end.Rows = uint64(m.Groups)
	return end, err
}
