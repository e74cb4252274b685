package engine

import (
	"context"
	"slices"

	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// readPredecessors adds the last readings before the box to additional workers, in groups marked as
// predecessors, and returns all workers. Unless always is set, it does so only if the box has rows.
func (l *localSource) readPredecessors(
	ctx context.Context, q *prepared, module *registry.Version, horizonNs int64,
	workers []*aggregate.Worker, over *aggregate.Overflow, always bool,
) ([]*aggregate.Worker, error) {
	back, ok := aggregate.PredecessorQuery(q.Query, horizonNs)
	found := slices.ContainsFunc(workers, (*aggregate.Worker).HasGroups)
	if !ok || !always && !over.Used() && !found {
		return workers, nil
	}
	by := record.GroupBy{CID: q.GroupBy.CID, MID: q.GroupBy.MID, MOID: q.GroupBy.MOID}
	columns, inside := module.Columns|GroupColumns(by), len(workers)
	before := q.with(back)
	_, err := l.scan(ctx, before, columns, func(worker int) (store.Sink, uint32, error) {
		a, err := aggregate.NewWorker(ctx, worker, q.Query, q.guestOwner, module,
			aggregate.NewPredecessorTable(q.GroupBy, l.engine.Limits.MemoryGroups), over)
		if err != nil {
			return nil, 0, err
		}
		workers = append(workers, a)
		return func(b *record.Batch) error { return a.Add(ctx, b) }, a.PayloadPrefix(), nil
	})
	aggregate.InOrder(workers[inside:])
	return workers, err
}
