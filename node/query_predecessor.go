package node

import (
	"context"
	"slices"

	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// checkPredecessors rejects queries without unique predecessors: of versions, and of several ranges
// of time.
func checkPredecessors(q *record.Query) error {
	name, _, _ := record.SplitPluginRef(q.Aggregate.Name)
	switch {
	case q.View == record.ViewAll:
		return &record.InvalidError{Part: "view", Reason: record.Inconsistent, Row: -1,
			Detail: name + " needs readings and not their versions; ask for the " +
				"latest, or as of a moment"}
	case len(q.Box[record.Cap]) > 1:
		return &record.InvalidError{Part: "cap", Reason: record.Inconsistent, Row: -1,
			Detail: name + " needs one range of cap; ask once for each"}
	}
	return nil
}

// predecessorQuery returns the query for the last reading of each series before the box, as of the
// horizon of the answer; false if none is needed.
func predecessorQuery(q *record.Query, horizonNs int64) (*record.Query, bool) {
	caps := q.Box[record.Cap]
	if len(caps) == 0 || caps[0].From == record.Cap.Min() || q.Last > 0 {
		return nil, false
	}
	back := *q
	back.Box[record.Cap] = record.RangeSet{{From: record.Cap.Min(), To: caps[0].From}}
	back.Last, back.Limit = 1, 0
	if back.View == record.ViewLatest || back.AsOfAcqNs > horizonNs {
		back.View, back.AsOfAcqNs = record.ViewAsOf, horizonNs
	}
	return &back, true
}

// readPredecessors adds the last readings before the box to additional workers, in groups marked as
// predecessors, and returns all workers. Unless always is set, it does so only if the box has rows.
func (n *localSource) readPredecessors(
	ctx context.Context, q *prepared, module *registry.Version, horizonNs int64,
	workers []*aggregator, over *overflow, always bool,
) ([]*aggregator, error) {
	back, ok := predecessorQuery(q.Query, horizonNs)
	found := func(a *aggregator) bool { return len(a.groups.keys) > 0 }
	if !ok || !always && !over.used() && !slices.ContainsFunc(workers, found) {
		return workers, nil
	}
	by := record.GroupBy{CID: q.GroupBy.CID, MID: q.GroupBy.MID, MOID: q.GroupBy.MOID}
	parts, inside := module.Parts|groupParts(by), len(workers)
	before := &prepared{back, q.filters}
	_, err := n.scan(ctx, before, parts, func(worker int) (store.Sink, uint32, error) {
		a, err := n.newAggregator(ctx, q.Query, module, newGroups(by, nil, n.heldGroups), over)
		if err != nil {
			return nil, 0, err
		}
		a.worker, a.groups.predecessors = worker, true
		workers = append(workers, a)
		return func(b *record.Batch) error { return a.add(ctx, b) }, a.guest.Front(), nil
	})
	inOrder(workers[inside:])
	return workers, err
}

// predecessors returns the pairs of groups and their predecessors, given the order of their keys.
func predecessors(keys []groupKey, order []int) (pairs []wasmhost.Predecessor) {
	for i := 1; i < len(order); i++ {
		a, b := keys[order[i-1]], keys[order[i]]
		if a.cid == b.cid && a.mid == b.mid && a.moid == b.moid {
			pairs = append(pairs, wasmhost.Predecessor{Group: uint32(order[i]),
				Before: uint32(order[i-1])})
		}
	}
	return pairs
}
