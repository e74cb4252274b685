package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// waitersPerPermit is how many queries wait for each that runs, at most: the clients of more
	// would give up before an answer.
	waitersPerPermit = 16
	// queueTime is how long a query waits for a permit, at most.
	queueTime = 5 * time.Second
)

// Owners of permits other than the tenants of records, whose numbers begin at 1.
const (
	askWide    = 1<<32 + iota + 1 // queries over several tenants
	askChanges                    // feeds
)

// newAdmission returns permits for queries. Queries of other nodes have permits of their own:
// otherwise two nodes that query each other could wait for each other.
func (o *Options) newAdmission() *admission.Controller {
	return admission.New(admission.Options{Permits: o.MaxQueries, MaxQueue: max(0, o.MaxWaiting),
		MaxWait: queueTime})
}

// queryPermit is the permit of a query and the modules that it brought, until done.
type queryPermit struct {
	permit  *admission.Permit
	release func()
	over    atomic.Bool
}

// done may be called more than once, and of nil.
func (a *queryPermit) done() {
	if a == nil || a.over.Swap(true) {
		return
	}
	a.release()
	a.permit.Release()
}

type permitKey struct{}

// withPermit returns a context that carries the permit of a query.
func withPermit(ctx context.Context, a *queryPermit) context.Context {
	return context.WithValue(ctx, permitKey{}, a)
}

// enter acquires a permit for a query unless its context carries one, and begins its CPU time;
// leave ends both. It may wait some seconds.
//
// Errors: errClosing; admission.ErrFull; admission.ErrLate; the cause of ctx.
func (n *Node) enter(
	ctx context.Context, cids record.RangeSet,
) (inTurn context.Context, leave func(), err error) {
	if n.closing.Load() {
		return nil, nil, errClosing
	}
	asker := askerOf(cids)
	if ctx.Value(permitKey{}) != nil {
		q := n.processors.Begin(asker)
		return cpushare.With(ctx, q), q.End, nil
	}
	permit, err := n.admissionOf(ctx).Acquire(ctx, asker)
	if err == nil && n.closing.Load() {
		permit.Release()
		err = errClosing
	}
	if err != nil {
		return nil, nil, err
	}
	q := n.processors.Begin(asker)
	return cpushare.With(ctx, q), func() {
		q.End()
		permit.Release()
	}, nil
}

// admissionOf returns the controller that a query gets its permit from.
func (n *Node) admissionOf(ctx context.Context) *admission.Controller {
	if optionsOf(ctx).groups != nil {
		return n.asked
	}
	return n.queries
}

// askerOf returns the owner of a query's permit: its tenant, or one for all queries over several.
func askerOf(cids record.RangeSet) uint64 {
	if len(cids) == 1 && cids[0].To == cids[0].From+1 {
		return 1 + uint64(uint32(cids[0].From))
	}
	return askWide
}

// admit acquires a permit for a query before its answer begins, so that a streamed answer can fail
// with an HTTP status instead of an error frame. Until done, the modules that the query brought
// stay compiled.
//
// Errors: those of enter; those that the query would fail with before it begins.
func (n *Node) admit(ctx context.Context, q *record.Query) (*queryPermit, error) {
	if n.closing.Load() {
		return nil, errClosing
	}
	permit, err := n.admissionOf(ctx).Acquire(ctx, askerOf(q.Box[record.CID]))
	if err != nil {
		return nil, err
	}
	a := &queryPermit{permit: permit, release: func() {}}
	if err = n.checkAsOf(ctx, q); err == nil {
		var modules []*pluginVersion
		modules, err = n.useFilters(ctx, q)
		a.release = func() { n.releaseFilters(modules) }
	}
	if err != nil {
		a.done()
		return nil, err
	}
	return a, nil
}
