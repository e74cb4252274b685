package engine

import (
	"context"
	"slices"

	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// predecessorScan reads the last readings before the box of an aggregate of a source.
type predecessorScan struct {
	*localSource
	q       *prepared
	module  *registry.Version
	devices *aggregate.DeviceValues // of the groups
	over    *aggregate.Overflow
	always  bool // also if the box has no rows
}

// read adds the readings to additional workers, in groups marked as predecessors, and returns all
// workers.
func (p predecessorScan) read(
	ctx context.Context, horizonNs int64, workers []*aggregate.Worker,
) ([]*aggregate.Worker, error) {
	q := p.q
	back, ok := aggregate.PredecessorQuery(q.Query, horizonNs)
	found := slices.ContainsFunc(workers, (*aggregate.Worker).HasGroups)
	if !ok || !p.always && !p.over.Used() && !found {
		return workers, nil
	}
	by := record.GroupBy{CID: q.GroupBy.CID, MID: q.GroupBy.MID, MOID: q.GroupBy.MOID,
		Key: q.GroupBy.Key}
	columns, inside := p.module.Columns|GroupColumns(by), len(workers)
	before := q.with(back)
	_, err := p.scan(ctx, before, columns, func(worker int) (store.Sink, uint32, error) {
		a, err := aggregate.NewWorker(ctx, worker, q.Query, q.guestOwner, p.module,
			aggregate.NewPredecessorTable(q.GroupBy, p.devices, p.engine.Limits.MemoryGroups),
			p.over)
		if err != nil {
			return nil, 0, err
		}
		workers = append(workers, a)
		return func(b *record.Batch) error { return a.Add(ctx, b) }, a.PayloadPrefix(), nil
	})
	aggregate.InOrder(workers[inside:])
	return workers, err
}
