package node

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Reader runs queries on a node with options; see [Node.AllowPartial] and [Node.Fresh].
type Reader struct {
	engine  *engine.Engine
	options request.Options
}

// AllowPartial returns a reader whose answers may omit unavailable sources: the end of such an
// answer says that it is not complete, and what is missing.
func (n *Node) AllowPartial() Reader {
	return Reader{n.engine, request.Options{AllowPartial: true}}
}

// Fresh returns a reader whose aggregates read all rows of their box instead of using the
// partial-aggregate cache. The answers are the same.
func (n *Node) Fresh() Reader { return Reader{n.engine, request.Options{NoCache: true}} }

// withoutOptions returns a reader without options.
func (n *Node) withoutOptions() Reader { return Reader{n.engine, request.Options{}} }

// Query is [Node.Query] with the options.
func (r Reader) Query(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	if err := q.Normalize(); err != nil {
		return wire.End{}, err
	}
	return r.engine.Query(ctx, r.options, q, emit)
}

// Count is [Node.Count] with the options.
func (r Reader) Count(ctx context.Context, q *record.Query) (uint64, wire.End, error) {
	if err := q.Normalize(); err != nil {
		return 0, wire.End{}, err
	}
	return r.engine.Count(ctx, r.options, q)
}

// Aggregate is [Node.Aggregate] with the options.
func (r Reader) Aggregate(ctx context.Context, q *record.Query) ([]wire.Group, wire.End, error) {
	if err := q.Normalize(); err != nil {
		return nil, wire.End{}, err
	}
	return r.engine.Aggregate(ctx, r.options, q)
}

// Diff is [Node.Diff] with the options.
func (r Reader) Diff(
	ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error,
) (wire.End, error) {
	return r.engine.Diff(ctx, r.options, ask, emit)
}

// Versions is [Node.Versions] with the options.
func (r Reader) Versions(ctx context.Context, box *record.Box) ([]record.Version, wire.End, error) {
	return r.engine.Versions(ctx, r.options, &wire.Box{Box: *box})
}

// Query runs a query for records and passes them to emit, one batch at a time, each valid during
// the call. An error of emit ends the query and is returned.
func (n *Node) Query(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	return n.withoutOptions().Query(ctx, q, emit)
}

// Count returns the number of records that a query finds, without limit and order.
func (n *Node) Count(ctx context.Context, q *record.Query) (uint64, wire.End, error) {
	return n.withoutOptions().Count(ctx, q)
}

// Aggregate runs an aggregate and returns its groups in the order of keys, up to the limit. A query
// that finds nothing has no groups.
func (n *Node) Aggregate(ctx context.Context, q *record.Query) ([]wire.Group, wire.End, error) {
	return n.withoutOptions().Aggregate(ctx, q)
}

// States emits the groups of an aggregate as saved states, for a node that merges them with those
// of other nodes. What emit gets is not modified afterwards.
func (n *Node) States(
	ctx context.Context, q *record.Query, emit func(wire.GroupState) error,
) (wire.End, error) {
	if err := q.Normalize(); err != nil {
		return wire.End{}, err
	}
	return n.engine.States(ctx, request.Options{}, q, emit)
}

// Explain runs a query without its plugins, order and limit, and returns how its rows were found
// and at what cost; for an aggregate also, how many partial states are cached.
func (n *Node) Explain(ctx context.Context, q *record.Query) (api.Explanation, error) {
	if err := q.Normalize(); err != nil {
		return api.Explanation{}, err
	}
	return n.engine.Explain(ctx, request.Options{}, q, api.ExplainOf{})
}

// Diff passes to emit the changes of readings between two acqs; see [store.Store.Diff]. An error of
// emit ends it and is returned.
func (n *Node) Diff(
	ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error,
) (wire.End, error) {
	return n.withoutOptions().Diff(ctx, ask, emit)
}

// Versions returns every version of the readings in a box; see [store.Store.Versions].
func (n *Node) Versions(ctx context.Context, box *record.Box) ([]record.Version, wire.End, error) {
	return n.withoutOptions().Versions(ctx, box)
}

// VersionsSelected is Versions of the devices of one tenant that a selector chooses, in the
// language of [registry.ParseSelector].
func (n *Node) VersionsSelected(
	ctx context.Context, box *record.Box, selector string,
) ([]record.Version, wire.End, error) {
	ask := &wire.Box{Box: *box, Select: selector}
	if err := ask.Check(); err != nil {
		return nil, wire.End{}, err
	}
	return n.engine.Versions(ctx, request.Options{}, ask)
}

// Horizon returns an acq below which nothing changes any more.
func (n *Node) Horizon(ctx context.Context) (int64, error) {
	return n.engine.Horizon(ctx, request.Options{}, &record.Box{})
}

// HorizonPast returns the horizon of a box, nil for all records; the acqs of the box do not matter.
// It waits until the horizon is above afterNs, e.g. the acq of a put; 0 does not wait.
//
// Errors: of the sources, and of ctx, because the horizon of a group without a leader does not
// move.
func (n *Node) HorizonPast(
	ctx context.Context, box *record.Box, afterNs int64,
) (horizonNs int64, err error) {
	return n.engine.HorizonPast(ctx, request.Options{}, box, afterNs)
}

// QueryBelow is Query for the records with an acq below belowNs, which was a horizon of the box. It
// finds all of them, because it waits for replicas whose horizon is lower.
func (n *Node) QueryBelow(
	ctx context.Context, q *record.Query, belowNs int64, emit func(b *record.Batch) error,
) (wire.End, error) {
	return n.engine.QueryBelow(ctx, request.Options{}, q, belowNs, emit)
}

// SinceNow as the start of a feed means the horizon.
const SinceNow = engine.SinceNow

// Changes passes to emit the records and events of q's box from an acq on, in the order of acq, in
// slices up to the horizon. With follow it continues with new ones, and with an empty slice as a
// heartbeat, until ctx or the node ends. Tombstones pass the filters of q; its view, order and
// limit must be zero. A slice is valid during the call of emit, which delays only this feed.
//
// Returns: the acq to resume from, also with an error.
func (n *Node) Changes(
	ctx context.Context, q *record.Query, fromNs int64, follow bool,
	emit func(*store.Slice) error,
) (closedNs int64, err error) {
	if err := q.Normalize(); err != nil {
		return fromNs, err
	}
	return n.engine.Changes(ctx, request.Options{}, q, fromNs, follow, engine.Heartbeat, emit)
}

// Digest returns digests of slices of a box; see [store.Store.Digest]. With rows, the range between
// the two cuts is first divided into slices of that many rows, see [store.Store.Cut].
func (n *Node) Digest(
	ctx context.Context, box record.Box, cuts []int64, rows uint64,
) (slices []digest.Slice, historyChangedAcqNs int64, err error) {
	return n.engine.Digest(ctx, request.Options{},
		&wire.DigestQuery{Box: box, Cuts: cuts, Rows: rows})
}

// State returns what a mirror needs besides records; see [store.Store.State]. Of a cluster
// groups is how many give acqs on their own; else it is 0.
func (n *Node) State(ctx context.Context) (st store.State, groups int, err error) {
	return n.engine.State(ctx, request.Options{})
}

// Policy is a retention and the groups of a cluster that have it, by their numbers; nil: all.
type Policy = engine.Policy

// Events lists erases, purges and steps of retentions, oldest first; see [store.Store.Events]. In a
// cluster each group has its own of them, of its slots and with an acq of its own.
func (n *Node) Events(ctx context.Context) ([]event.Event, error) {
	return n.engine.Events(ctx, request.Options{})
}

// Retention lists the policies of all groups that are asked; see [store.Store.Retention].
func (n *Node) Retention(ctx context.Context) ([]Policy, error) {
	return n.engine.Retention(ctx, request.Options{})
}

// Expired counts the records that a policy would hide now; see [retention.Rule.Expired].
func (n *Node) Expired(ctx context.Context, r retention.Rule) (uint64, error) {
	return n.engine.Expired(ctx, r)
}
