package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/places"
	"github.com/pentad-db/pentad/node/internal/turns"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

const (
	// waitersPerPlace is how many questions wait for each that runs, at most: what comes beyond
	// would wait for longer than who asks does.
	waitersPerPlace = 16
	// queueTime is how long a question waits for a place at most.
	queueTime = 5 * time.Second
)

// Tenants of places that are no tenants of records, whose numbers begin at 1.
const (
	askWide    = 1<<32 + iota + 1 // questions of several tenants
	askChanges                    // readers of changes
)

// newPlaces returns places for questions. Those that other nodes ask have places of their own: two
// nodes that ask each other would else wait for each other.
func (o *Options) newPlaces() *places.Places {
	return places.New(places.Options{Places: o.MaxQueries, Queue: max(0, o.MaxWaiting),
		Wait: queueTime})
}

// admission is the place of a question, and the modules that it brought, until done.
type admission struct {
	place   *places.Place
	release func()
	over    atomic.Bool
}

// done may be called more than once, and of nil.
func (a *admission) done() {
	if a == nil || a.over.Swap(true) {
		return
	}
	a.release()
	a.place.Give()
}

type admissionKey struct{}

// withAdmission gives a question the place that was taken for it.
func withAdmission(ctx context.Context, a *admission) context.Context {
	return context.WithValue(ctx, admissionKey{}, a)
}

// enter takes a place for a question, which leave gives back, unless it was given one, and begins
// its turns at the processors. It may wait some seconds.
//
// Errors: errClosing; places.ErrFull; places.ErrLate; the cause of ctx.
func (n *Node) enter(
	ctx context.Context, cids record.RangeSet,
) (inTurn context.Context, leave func(), err error) {
	if n.closing.Load() {
		return nil, nil, errClosing
	}
	asker := askerOf(cids)
	if ctx.Value(admissionKey{}) != nil {
		q := n.turns.Begin(asker)
		return turns.With(ctx, q), q.End, nil
	}
	place, err := n.placesOf(ctx).Take(ctx, asker)
	if err == nil && n.closing.Load() {
		place.Give()
		err = errClosing
	}
	if err != nil {
		return nil, nil, err
	}
	q := n.turns.Begin(asker)
	return turns.With(ctx, q), func() {
		q.End()
		place.Give()
	}, nil
}

// placesOf returns the places that a question takes one of.
func (n *Node) placesOf(ctx context.Context) *places.Places {
	if scopeOf(ctx).groups != nil {
		return n.asked
	}
	return n.queries
}

// askerOf returns who shares places as one: a tenant, or all who ask of several.
func askerOf(cids record.RangeSet) uint64 {
	if len(cids) == 1 && cids[0].To == cids[0].From+1 {
		return 1 + uint64(uint32(cids[0].From))
	}
	return askWide
}

// admit takes a place for a question before its answer begins, so that an answer which is a stream
// has the status of an error and not an error inside. Until done, modules that it brought need not
// be compiled again.
//
// Errors: those of enter; what the question would fail with before it begins.
func (n *Node) admit(ctx context.Context, q *record.Query) (*admission, error) {
	if n.closing.Load() {
		return nil, errClosing
	}
	place, err := n.placesOf(ctx).Take(ctx, askerOf(q.Box[record.CID]))
	if err != nil {
		return nil, err
	}
	a := &admission{place: place, release: func() {}}
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

// admit is that of the node for a request.
func (s *server) admit(ctx *fasthttp.RequestCtx, q *record.Query) (*admission, error) {
	rc, cancel := s.scoped(ctx)
	defer cancel()
	return s.node.admit(rc, q)
}
