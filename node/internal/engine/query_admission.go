package engine

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
)

// Scheduling keys of permits and CPU time other than those of tenants, which begin at 1.
const (
	wideQueriesKey = 1<<32 + iota + 1 // queries over several tenants
	feedsKey                          // feeds
)

// enter acquires a permit for what is not a query, and begins its CPU time; leave ends both. It may
// wait some seconds.
//
// Errors: those of acquire.
func (e *Engine) enter(
	ctx context.Context, options request.Options, cids record.RangeSet,
) (taskCtx context.Context, leave func(), err error) {
	permit := new(admission.Permit)
	if err := e.acquire(ctx, options, cids, permit); err != nil {
		return nil, nil, err
	}
	taskCtx, q := e.processors.Enter(ctx, schedulingKeyOf(cids))
	return taskCtx, func() {
		q.End()
		permit.Release()
	}, nil
}

// acquire acquires a permit in the memory of permit.
//
// Errors: nodeerror.ErrClosing; admission.ErrFull; admission.ErrTimeout; admission.ErrDrained; the
// cause of ctx.
func (e *Engine) acquire(
	ctx context.Context, options request.Options, cids record.RangeSet, permit *admission.Permit,
) error {
	if e.closing() {
		return nodeerror.ErrClosing
	}
	err := e.admissionOf(options).Acquire(ctx, schedulingKeyOf(cids), permit)
	if err == nil && e.closing() {
		permit.Release()
		err = nodeerror.ErrClosing
	}
	return err
}

// admissionOf returns the controller that a query gets its permit from.
func (e *Engine) admissionOf(options request.Options) *admission.Controller {
	if options.Groups != nil {
		return e.peerQueries
	}
	return e.queries
}

// schedulingKeyOf returns the key by which permits and CPU time are shared fairly: that of the
// tenant of a query, or one for all queries over several.
func schedulingKeyOf(cids record.RangeSet) uint64 {
	if len(cids) == 1 && cids[0].To == cids[0].From+1 {
		return 1 + uint64(uint32(cids[0].From))
	}
	return wideQueriesKey
}
