package node

import (
	"context"
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

// enter acquires a permit for what is not a query, and begins its CPU time; leave ends both. It may
// wait some seconds.
//
// Errors: those of acquire.
func (n *Node) enter(
	ctx context.Context, cids record.RangeSet,
) (inTurn context.Context, leave func(), err error) {
	permit, err := n.acquire(ctx, cids)
	if err != nil {
		return nil, nil, err
	}
	q := n.processors.Begin(askerOf(cids))
	return cpushare.With(ctx, q), func() {
		q.End()
		permit.Release()
	}, nil
}

// acquire acquires a permit.
//
// Errors: errClosing; admission.ErrFull; admission.ErrLate; the cause of ctx.
func (n *Node) acquire(ctx context.Context, cids record.RangeSet) (*admission.Permit, error) {
	if n.closing.Load() {
		return nil, errClosing
	}
	permit, err := n.admissionOf(ctx).Acquire(ctx, askerOf(cids))
	if err == nil && n.closing.Load() {
		permit.Release()
		err = errClosing
	}
	if err != nil {
		return nil, err
	}
	return permit, nil
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
