package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/feed"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// source answers queries for some of the groups: a store of this node, or another node. A
// series is stored in one source, so each source's versions and last readings are final. Filters
// and aggregates run in the source; for order and limit see [source.rows].
//
// Errors that are the fault of a source are a [nodeerror.SourceError].
type source interface {
	// rows passes rows to add, from several goroutines; a batch is valid during the call. Rows are
	// in no order; with an order and a limit they include the first ones. An answer that is
	// complete and sorted may go to sorter instead, which is nil without an order.
	rows(ctx context.Context, q *prepared, add store.Sink, sorter *spill.Sorter) (wire.End,
		error)
	// count returns an end whose rows are the count.
	count(ctx context.Context, q *prepared) (wire.End, error)
	// states returns the groups of an aggregate as saved states. If they do not fit into memory,
	// all of them are in the overflow.
	states(ctx context.Context, q *prepared, module *registry.Version, over *aggregate.Overflow) (
		*aggregate.States, wire.End, error)
	diff(ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error) (wire.End,
		error)
	versions(ctx context.Context, ask *wire.Box, limit *answerLimit) ([]record.Version, wire.End,
		error)
	// changes emits slices up to the horizon. With follow it continues, and reports its horizon
	// every sourceBeat, and earlier on demand.
	changes(ctx context.Context, q *prepared, fromNs int64, follow bool, d *feed.Demand,
		emit func(*store.Slice) error) error
	explain(ctx context.Context, q *prepared, of api.ExplainOf) ([]api.SourceExplanation, error)
	horizon(ctx context.Context, box *record.Box) (int64, error)
	digest(ctx context.Context, q *wire.DigestQuery) (digests, error)
	events(ctx context.Context) ([]event.Event, error)
	policies(ctx context.Context) ([]Policy, error)
	// state returns the state of each group.
	state(ctx context.Context) ([]store.State, error)
	// cut divides a range of acq for each group, see [store.Store.Cut].
	cut(ctx context.Context, fromNs, toNs int64, rows uint64) ([][]int64, error)
}

// sources returns the sources of a box: one for each group of this node, and one for each other
// node with all groups that it is queried for.
func (e *Engine) sources(options request.Options, box *record.Box) ([]source, error) {
	t := e.routes.Load()
	if len(t.groups) == 0 {
		return nil, nodeerror.ErrNoView
	}
	var wanted []cluster.GroupID // nil for all
	if options.Groups == nil && options.OnlyGroup == 0 {
		wanted = t.owners.Groups(box)
	}
	return e.sourcesOf(options, t, func(g cluster.GroupID) bool {
		return (wanted == nil || slices.Contains(wanted, g)) &&
			(options.OnlyGroup == 0 || options.OnlyGroup == g)
	})
}

// sourcesOf returns the sources of the groups that are wanted and, if the request names groups,
// among these.
func (e *Engine) sourcesOf(
	options request.Options, t *routingTable, wanted func(group cluster.GroupID) bool,
) (out []source, err error) {
	remotes := map[*Peer]*remoteSource{}
	var locals []*localSource
	for g, route := range t.all() {
		switch {
		case !wanted(g), options.Groups != nil && !slices.Contains(options.Groups, g):
		case route.local != nil &&
			(options.Groups != nil || route.peer == nil || route.local.checkSlots() == nil):
			here := *route.local
			here.firstDelivery = new(firstDelivery)
			here.afterNs = max(options.AfterOf(g), e.sessionAcq(g, options.Groups))
			here.linearizable = options.Linearizable
			if options.Groups != nil {
				here.required = options.RequiredSlots(g)
			}
			out, locals = append(out, &here), append(locals, &here)
		case options.Groups != nil:
			return nil, NotHere(g)
		case route.unreachable():
			return nil, noRoute(g)
		default:
			r := remotes[route.peer]
			if r == nil {
				r = &remoteSource{peer: route.peer, budget: e.Limits.ResultBytes,
					linearizable: options.Linearizable}
				if m := e.cluster.Load(); m != nil {
					r.feedWaker = m
				}
				remotes[route.peer] = r
				out = append(out, r)
			}
			r.add(g, route, max(options.AfterOf(g), e.sessionAcq(g, nil)))
		}
	}
	for _, l := range locals {
		l.concurrentScans = len(locals)
	}
	return out, nil
}

// NotHere rejects a query of another node for a group that is not here: the other node must refresh
// its routing table.
func NotHere(group cluster.GroupID) error {
	return &wire.Error{Kind: wire.KindNotFound, Part: "groups", Message: fmt.Sprintf(
		"group %d is not on this node; refresh the routing table", group)}
}

// noRoute is the error of a group that no known node answers for.
func noRoute(group cluster.GroupID) error {
	return &wire.Error{Kind: wire.KindUnavailable, RetryAfterMs: nodeerror.RetryAfterMs,
		Message: fmt.Sprintf("no node is known to answer for group %d, whose replica may have "+
			"stopped; pentad cluster groups says where it is", group)}
}

// cutOff is the error of a group whose replica here has no leader: it does not receive what other
// replicas acknowledge.
func cutOff(group cluster.GroupID) error {
	return &wire.Error{Kind: wire.KindUnavailable, RetryAfterMs: nodeerror.RetryAfterMs,
		Message: fmt.Sprintf("group %d: %v", group, member.ErrCutOff)}
}

// movedAway is the error of a group whose replica left this node during a query.
func movedAway(group cluster.GroupID) error {
	return &wire.Error{Kind: wire.KindUnavailable, RetryAfterMs: nodeerror.RetryAfterMs,
		Message: fmt.Sprintf("group %d is not on this node any more, or its replica here has lost "+
			"its leader", group)}
}

// acqAhead is the error of a query that would wait for an acq far ahead of the clock, holding its
// permit: the acq is of another cluster, or of a clock that was wrong.
func acqAhead(group cluster.GroupID, acqNs int64) error {
	return &wire.Error{Kind: wire.KindUnavailable, Part: request.ParamAfter,
		RetryAfterMs: nodeerror.RetryAfterMs,
		Message: fmt.Sprintf("group %d is not as far as acq %s, which lies ahead of the clock of "+
			"this node; is it of this cluster?", group, record.FormatNs(acqNs))}
}

// afterAcq returns a source that waits for an acq before it answers; l itself if afterNs is 0.
func (e *Engine) afterAcq(l *localSource, afterNs int64) *localSource {
	if afterNs == 0 {
		return l
	}
	later := *l
	later.afterNs = afterNs
	return &later
}

// sessionAcq returns up to which acq clients of this node have written or read a group through it,
// and expect to read it: read-your-writes and monotonic reads. It is 0 for queries of other nodes,
// which bring their own.
func (e *Engine) sessionAcq(group cluster.GroupID, groups []cluster.GroupID) int64 {
	m := e.cluster.Load()
	if m == nil || groups != nil {
		return 0
	}
	return m.SessionAcq(group)
}

// otherReplica returns the source of a replica on another node, for one here that is damaged; nil
// if there is none, or if another node sent the query, which then chooses itself.
func (e *Engine) otherReplica(options request.Options, damaged *localSource) []source {
	route := e.routes.Load().route(damaged.group)
	if options.Groups != nil || route == nil || len(route.peers) == 0 {
		return nil
	}
	r := &remoteSource{peer: route.peers[0], budget: e.Limits.ResultBytes,
		linearizable: damaged.linearizable}
	r.add(damaged.group, route, damaged.afterNs)
	return []source{r}
}

// alternatives returns other sources for the groups of one that failed or is slow, with the same
// guarantees; nil if there are none.
func (e *Engine) alternatives(failed *remoteSource) (out []*remoteSource) {
	t := e.routes.Load()
	tried := append(slices.Clone(failed.tried), failed.peer)
	remotes := map[*Peer]*remoteSource{}
	for i, g := range failed.groups {
		route := t.route(g)
		if route == nil || route.slots != failed.slots[i] {
			return nil
		}
		k := slices.IndexFunc(route.peers, func(o *Peer) bool { return !slices.Contains(tried, o) })
		if k < 0 {
			return nil
		}
		r := remotes[route.peers[k]]
		if r == nil {
			r = &remoteSource{peer: route.peers[k], budget: failed.budget,
				linearizable: failed.linearizable, tried: tried}
			remotes[r.peer] = r
			out = append(out, r)
		}
		r.add(g, route, failed.after[i])
	}
	return out
}
