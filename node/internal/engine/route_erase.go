package engine

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// deleteRange implements source.
func (l *localSource) deleteRange(
	ctx context.Context, box record.Box, purge bool,
) (acqNs int64, err error) {
	if purge {
		return l.store.Purge(ctx, box)
	}
	return l.store.Erase(ctx, box)
}

// deleteRange implements source.
func (r *remoteSource) deleteRange(
	ctx context.Context, box record.Box, purge bool,
) (acqNs int64, err error) {
	ask := r.client().Erase
	if purge {
		ask = r.client().Purge
	}
	acqNs, err = ask(ctx, &wire.Box{Box: box, Everything: true})
	return acqNs, r.wireError(ctx, err)
}

// DeleteRange erases or purges a box in all sources. Each assigns the event an acq of its own.
//
// Returns: the greatest acq. Records with a greater one are visible in any source. After an error
// some sources may have applied the event; a retry also hides records that were put in between.
func (e *Engine) DeleteRange(
	ctx context.Context, options request.Options, box record.Box, purge bool,
) (acqNs int64, err error) {
	if only := e.routes.Load().single; only != nil {
		return only.deleteRange(ctx, box, purge)
	}
	a, err := askSources(ctx, e, options.Whole(), askChange, &box, func(
		ctx context.Context, s source,
	) (int64, wire.End, error) {
		acqNs, err := s.deleteRange(ctx, box, purge)
		return acqNs, wire.End{}, err
	})
	for _, ns := range a.answers {
		acqNs = max(acqNs, ns)
	}
	return acqNs, err
}
