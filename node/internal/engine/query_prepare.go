package engine

import (
	"context"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
	"github.com/pentad-db/pentad/wasmhost"
)

// prepared is a query that was checked once, for all that runs it: it is normalized, and the
// modules of its filters are looked up. The modules belong to its permit.
type prepared struct {
	*record.Query
	filters    []*registry.Version // by Query.Filters
	where      *where.Program      // of Query.Where, for feeds only
	options    request.Options
	guestOwner wasmhost.Owner // of guest calls, see [Engine.withGuestOwner]

	values *aggregate.Values // of an aggregate whose groups have a key, else nil
	// foundValues gets what the devices of a source have for the key, before its sinks are made;
	// nil: none are wanted.
	foundValues func(*store.DeviceValues) error
}

// with returns the same for another query.
func (p *prepared) with(q *record.Query) *prepared {
	other := *p
	other.Query = q
	return &other
}

// Admitted is a query that was admitted: its permit and what it uses, until done.
type Admitted struct {
	prepared
	engine  *Engine
	permit  admission.Permit
	output  orderedOutput // of Rows and Frames
	cleanUp func()        // ends the use of what else it has; may be nil
	isDone  atomic.Bool
}

// Done may be called more than once, and of nil.
func (a *Admitted) Done() {
	if a == nil || a.isDone.Swap(true) {
		return
	}
	if a.cleanUp != nil {
		a.cleanUp()
	}
	a.engine.unpinFilters(a.filters)
	a.permit.Release()
}

// Prepare admits a normalized query and looks up its filters. Until Done, the modules that the
// query brought stay compiled.
//
// Errors: those of admit; those of the plugins that it names.
func (e *Engine) Prepare(
	ctx context.Context, options request.Options, q *record.Query,
) (*Admitted, error) {
	a, err := e.admit(ctx, options, q)
	if err != nil {
		return nil, err
	}
	if a.filters, err = e.pinFilters(ctx, q); err != nil {
		a.Done()
		return nil, err
	}
	return a, nil
}

// Options returns the options of the request.
func (a *Admitted) Options() request.Options { return a.options }

// Permit returns the permit, which may be lent while the client does not read.
func (a *Admitted) Permit() *admission.Permit { return &a.permit }

// prepareCall is Prepare for a query whose errors are remembered.
func (e *Engine) prepareCall(
	ctx context.Context, options request.Options, q *record.Query,
) (*Admitted, error) {
	a, err := e.Prepare(ctx, options, q)
	if err != nil {
		e.notePluginFailure(q, err)
	}
	return a, err
}

// admit acquires a permit for a normalized query before its answer begins, so that a streamed
// answer can fail with an HTTP status instead of an error frame. Its filters are not looked up.
//
// Errors: those of acquire; an as-of time in the future; those of bindWhere and bindMoving.
func (e *Engine) admit(
	ctx context.Context, options request.Options, q *record.Query,
) (*Admitted, error) {
	q, err := e.bindWhere(q)
	if err == nil {
		q, err = e.bindMoving(q)
	}
	if err != nil {
		return nil, err
	}
	a := &Admitted{prepared: prepared{Query: q, options: options}, engine: e}
	if err := e.acquire(ctx, options, q.Box[record.CID], &a.permit); err != nil {
		return nil, err
	}
	if err := e.checkAsOf(ctx, options, q); err != nil {
		a.Done()
		return nil, err
	}
	return a, nil
}

// begin begins the CPU time of an admitted query, which the caller ends. It waits until the horizon
// has passed the as-of time of the query; where each source has a horizon of its own, it returns a
// query that makes the sources wait.
func (e *Engine) begin(
	ctx context.Context, q *prepared,
) (taskCtx context.Context, ready *prepared, share *cpushare.Task, err error) {
	ctx, share = e.processors.Enter(ctx, schedulingKeyOf(q.Box[record.CID]))
	if q, err = e.waitForAsOf(ctx, q); err != nil {
		share.End()
		return ctx, nil, nil, err
	}
	return ctx, q, share, nil
}

// pinFilters returns the modules of the filters of a query, in their order. With an error it
// returns those that are to be unpinned.
func (e *Engine) pinFilters(ctx context.Context, q *record.Query) ([]*registry.Version, error) {
	modules := make([]*registry.Version, 0, len(q.Filters))
	for i := range q.Filters {
		v, err := e.plugins.UseCall(ctx, &q.Filters[i], plugin.KindFilter)
		if err != nil {
			return modules, err
		}
		modules = append(modules, v)
	}
	return modules, nil
}

func (e *Engine) unpinFilters(modules []*registry.Version) {
	for _, v := range modules {
		e.plugins.Unpin(v)
	}
}

// withPluginVersions returns the query with versions in place of the names of its plugins, so that
// all sources run the same ones. The aggregate is nil where there is none.
func (p *prepared) withPluginVersions(aggregate *registry.Version) *prepared {
	q := *p.Query
	q.Filters = append([]record.PluginCall(nil), p.Filters...)
	setVersion := func(call *record.PluginCall, v *registry.Version) {
		if call.Module == nil {
			call.Name = v.Ref()
		}
	}
	for i, v := range p.filters {
		setVersion(&q.Filters[i], v)
	}
	if aggregate != nil {
		setVersion(&q.Aggregate, aggregate)
	}
	return p.with(&q)
}
