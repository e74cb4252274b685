package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// diff implements source.
func (l *localSource) diff(
	ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error,
) (wire.End, error) {
	stats, err := l.store.Diff(ctx, ask, emit)
	return endOf(stats, stats.Rows), err
}

// diff implements source.
func (r *remoteSource) diff(
	ctx context.Context, ask *record.Diff, emit func(d *record.Differences) error,
) (wire.End, error) {
	var stopped error
	end, err := r.client().DiffBatches(ctx, ask, func(d *record.Differences) error {
		stopped = r.deliver(func() error { return emit(d) })
		return stopped
	})
	if stopped != nil {
		return end, stopped
	}
	return r.complete(ctx, end, err)
}

// diffOfAll passes the differences of all sources to emit, one batch at a time.
func (e *Engine) diffOfAll(
	ctx context.Context, options request.Options, d *record.Diff,
	emit func(d *record.Differences) error,
) (wire.End, error) {
	var emitting sync.Mutex
	var stopped error // guarded by emitting: what emit returned
	one := func(d *record.Differences) error {
		emitting.Lock()
		defer emitting.Unlock()
		if stopped == nil {
			stopped = fromConsumer(emit(d))
		}
		return stopped
	}
	a, err := askSources(ctx, e, options, askDiff, &d.Box, func(
		ctx context.Context, s source,
	) (none struct{}, end wire.End, err error) {
		own := *d // each makes it regular for itself
		end, err = s.diff(ctx, &own, func(d *record.Differences) error {
			if err := beginDelivery(s); err != nil {
				return err
			}
			return one(d)
		})
		return none, end, err
	})
	return a.end(), err
}

// versions implements source.
func (l *localSource) versions(
	ctx context.Context, ask *wire.Box, limit *answerLimit,
) ([]record.Version, wire.End, error) {
	all, stats, err := l.store.VersionsSelected(ctx, &ask.Box, ask.Select, limit.left.Load())
	if err == nil {
		err = limit.take(all)
	}
	return all, endOf(stats, stats.Rows), err
}

// versions implements source.
func (r *remoteSource) versions(
	ctx context.Context, ask *wire.Box, limit *answerLimit,
) (all []record.Version, end wire.End, err error) {
	bytes := int64(0)
	var stopped error
	whole := &wire.Box{Box: ask.Box, Everything: true, Select: ask.Select}
	end, err = r.client().VersionBatches(ctx, whole,
		func(some []record.Version) error {
			r.noteHeard()
			all = append(all, some...)
			if bytes += bytesOf(some); bytes > limit.left.Load() {
				stopped = nodeerror.ErrTooLarge
			}
			return stopped
		})
	if stopped != nil {
		return nil, end, stopped
	}
	if end, err = r.complete(ctx, end, err); err != nil {
		return nil, end, err
	}
	return all, end, r.deliver(func() error { return limit.take(all) })
}

// answerLimit is the memory that several sources may fill together.
type answerLimit struct{ left atomic.Int64 }

func (b *answerLimit) take(versions []record.Version) error {
	if b.left.Add(-bytesOf(versions)) < 0 {
		return nodeerror.ErrTooLarge
	}
	return nil
}

func bytesOf(versions []record.Version) int64 {
	bytes := int64(len(versions)) * bufferedRowBytes
	for i := range versions {
		bytes += int64(len(versions[i].Payload))
	}
	return bytes
}

// versionsOfAll merges the versions of all sources by key and acq.
func (e *Engine) versionsOfAll(
	ctx context.Context, options request.Options, ask *wire.Box,
) ([]record.Version, wire.End, error) {
	shared := new(answerLimit)
	shared.left.Store(e.Limits.ResultBytes)
	a, err := askSources(ctx, e, options, askVersions, &ask.Box, func(
		ctx context.Context, s source,
	) ([]record.Version, wire.End, error) {
		own := *ask // each makes it regular for itself
		return s.versions(ctx, &own, shared)
	})
	if err != nil {
		return nil, wire.End{}, err
	}
	all := slices.Concat(a.complete()...)
	slices.SortFunc(all, func(x, y record.Version) int { return x.Key.Compare(y.Key) })
	end := a.end()
	end.Rows = uint64(len(all))
	return all, end, nil
}
