package node

import (
	"context"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// prepared is a query that was checked once, for all that runs it: it is normalized, and the
// modules of its filters are resolved. The modules belong to its permit.
type prepared struct {
	*record.Query
	filters []*registry.Version // by Query.Filters
}

// queryPermit is a query that was admitted: its permit and what it uses, until done.
type queryPermit struct {
	prepared
	node    *Node
	permit  *admission.Permit
	asked   requestOptions // of a request
	release func()         // releases what else it uses; may be nil
	over    atomic.Bool
}

// done may be called more than once, and of nil.
func (a *queryPermit) done() {
	if a == nil || a.over.Swap(true) {
		return
	}
	if a.release != nil {
		a.release()
	}
	a.node.releaseFilters(a.filters)
	a.permit.Release()
}

// prepareQuery admits a normalized query and resolves its filters. Until done, the modules that the
// query brought stay compiled.
//
// Errors: those of admit; those of the plugins that it names.
func (n *Node) prepareQuery(ctx context.Context, q *record.Query) (*queryPermit, error) {
	a, err := n.admit(ctx, q)
	if err != nil {
		return nil, err
	}
	if a.filters, err = n.useFilters(ctx, q); err != nil {
		a.done()
		return nil, err
	}
	return a, nil
}

// prepareCall is prepareQuery for a query of a caller of [Node], whose errors are remembered.
func (n *Node) prepareCall(ctx context.Context, q *record.Query) (*queryPermit, error) {
	if err := q.Normalize(); err != nil {
		return nil, err
	}
	a, err := n.prepareQuery(ctx, q)
	if err != nil {
		n.failed(q, err)
	}
	return a, err
}

// admit acquires a permit for a normalized query before its answer begins, so that a streamed
// answer can fail with an HTTP status instead of an error frame. Its filters are not resolved.
//
// Errors: those of acquire; a moment in the future.
func (n *Node) admit(ctx context.Context, q *record.Query) (*queryPermit, error) {
	permit, err := n.acquire(ctx, q.Box[record.CID])
	if err != nil {
		return nil, err
	}
	a := &queryPermit{prepared: prepared{Query: q}, node: n, permit: permit}
	if err := n.checkAsOf(ctx, q); err != nil {
		a.done()
		return nil, err
	}
	return a, nil
}

// begin begins the CPU time of an admitted query, which leave ends, and waits until its moment has
// passed.
func (n *Node) begin(
	ctx context.Context, q *record.Query,
) (reached context.Context, leave func(), err error) {
	share := n.processors.Begin(askerOf(q.Box[record.CID]))
	if ctx, err = n.waitForAsOf(cpushare.With(ctx, share), q); err != nil {
		share.End()
		return ctx, nil, err
	}
	return ctx, share.End, nil
}

// useFilters returns the modules of the filters of a query, in their order. With an error it
// returns those that are to be released.
func (n *Node) useFilters(ctx context.Context, q *record.Query) ([]*registry.Version, error) {
	modules := make([]*registry.Version, 0, len(q.Filters))
	for i := range q.Filters {
		v, err := n.plugins.UseCall(ctx, &q.Filters[i], plugin.KindFilter)
		if err != nil {
			return modules, err
		}
		modules = append(modules, v)
	}
	return modules, nil
}

func (n *Node) releaseFilters(modules []*registry.Version) {
	for _, v := range modules {
		n.plugins.Release(v)
	}
}

// pinned returns the query with the names of its plugins resolved to versions, so that all sources
// run the same ones. The aggregate is nil where there is none.
func (p *prepared) pinned(aggregate *registry.Version) *prepared {
	q := *p.Query
	q.Filters = append([]record.PluginCall(nil), p.Filters...)
	pin := func(call *record.PluginCall, v *registry.Version) {
		if call.Module == nil {
			call.Name = v.Ref()
		}
	}
	for i, v := range p.filters {
		pin(&q.Filters[i], v)
	}
	if aggregate != nil {
		pin(&q.Aggregate, aggregate)
	}
	return &prepared{&q, p.filters}
}
