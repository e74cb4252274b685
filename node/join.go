package node

import (
	"context"
	"slices"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// joins reports whether states of a module ask for what lies before them.
func (v *pluginVersion) joins() bool {
	return v.module.Describe().Flags&plugin.FlagJoins != 0
}

// checkJoin refuses what nobody can join: versions, which are no readings, and times that do not
// follow upon each other.
func checkJoin(q *record.Query) error {
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

// backward returns the question for the last reading of each series before the box, known below the
// horizon of the answer; false when there is none to ask.
func backward(q *record.Query, horizonNs int64) (*record.Query, bool) {
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

// lookBack gives the last readings before the box to workers of their own, in groups that say so,
// and returns all workers. Unless always is set, it leaves that where nothing lies in the box.
func (n *local) lookBack(
	ctx context.Context, q *record.Query, module *pluginVersion, horizonNs int64,
	workers []*aggregator, over *overflow, always bool,
) ([]*aggregator, error) {
	back, ok := backward(q, horizonNs)
	found := func(a *aggregator) bool { return len(a.groups.keys) > 0 }
	if !ok || !always && !over.used() && !slices.ContainsFunc(workers, found) {
		return workers, nil
	}
	by := record.GroupBy{CID: q.GroupBy.CID, MID: q.GroupBy.MID, MOID: q.GroupBy.MOID}
	parts, inside := module.parts|groupParts(by), len(workers)
	_, err := n.scan(ctx, back, parts, func(worker int) (store.Sink, uint32, error) {
		a, err := n.newAggregator(ctx, q, module, newGroups(by, nil, n.heldGroups), over)
		if err != nil {
			return nil, 0, err
		}
		a.worker, a.groups.before = worker, true
		workers = append(workers, a)
		return func(b *record.Batch) error { return a.add(ctx, b) }, a.guest.Front(), nil
	})
	inOrder(workers[inside:])
	return workers, err
}

// neighbours returns which group lies right before which, for groups in the order of their keys.
func neighbours(keys []groupKey, order []int) (pairs []wasmhost.Neighbours) {
	for i := 1; i < len(order); i++ {
		a, b := keys[order[i-1]], keys[order[i]]
		if a.cid == b.cid && a.mid == b.mid && a.moid == b.moid {
			pairs = append(pairs, wasmhost.Neighbours{Group: uint32(order[i]),
				Before: uint32(order[i-1])})
		}
	}
	return pairs
}
