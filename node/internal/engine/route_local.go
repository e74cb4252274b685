package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// localSource is a source that reads a store of this node.
type localSource struct {
	engine *Engine
	store  *store.Store // of the group
	group  cluster.GroupID

	fromSlot, toSlot uint32      // of the group; both 0 for all
	required         slots.Range // that its store must hold; zero if the group was never split

	afterNs      int64 // acq that its horizon must pass before a read
	linearizable bool  // linearizable: a read sees all that any node has acknowledged

	// caughtUp is set once the replica has reached the commit index that a majority had when it was
	// routed to: from then on it does not lack what clients read at another replica before.
	caughtUp      *atomic.Bool
	firstDelivery *firstDelivery // of one query; nil without alternatives
	// concurrentScans is how many sources of the query read stores of this node; 0: it is the only
	// one.
	concurrentScans int
}

const (
	// horizonEvery is how often the horizon of a lagging replica is polled.
	horizonEvery = 2 * time.Millisecond
	// CatchUp waits catchUpTimeout for each replica, and catchUpPause before it retries.
	catchUpTimeout = 2 * time.Second
	catchUpPause   = time.Second
)

// CatchUp runs a read index for new replicas of this node, so that the first queries do not
// wait for it. It returns when the node begins to close.
func (e *Engine) CatchUp() {
	for {
		select {
		case <-e.needsCatchUp:
		case <-e.open.Done():
			return
		}
		for !e.catchUpAll() {
			select {
			case <-time.After(catchUpPause):
			case <-e.open.Done():
				return
			}
		}
	}
}

// catchUpAll reports whether all replicas of this node have caught up, or are gone.
func (e *Engine) catchUpAll() bool {
	all := true
	for _, route := range e.routes.Load().groups {
		if route.local == nil || route.local.caughtUp.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(e.open, catchUpTimeout)
		err := e.cluster.Load().ReadIndex(ctx, route.local.group)
		cancel()
		if err == nil {
			route.local.caughtUp.Store(true)
		}
		all = all && (err == nil || errors.Is(err, replica.ErrGroupUnknown))
	}
	return all
}

// ready reports whether wait would return at once.
func (l *localSource) ready(ctx context.Context) bool {
	if l.linearizable || l.caughtUp != nil && !l.caughtUp.Load() {
		return false
	}
	if l.afterNs == 0 {
		return true
	}
	horizon, err := l.store.ExtendHorizon(ctx)
	return err == nil && horizon > l.afterNs
}

// wait returns when the store has all that a read must see.
func (l *localSource) wait(ctx context.Context) error {
	prove := l.caughtUp != nil && !l.caughtUp.Load()
	if m := l.engine.cluster.Load(); (l.linearizable || prove) && m != nil {
		err := m.ReadIndex(ctx, l.group)
		if errors.Is(err, replica.ErrGroupUnknown) {
			err = movedAway(l.group)
		}
		if err != nil {
			return err
		}
		if prove {
			l.caughtUp.Store(true)
		}
	}
	began := time.Now()
	for here := began; l.afterNs > 0; {
		horizon, err := l.store.ExtendHorizon(ctx)
		if err != nil || horizon > l.afterNs {
			return err
		}
		if time.Since(began) > staleAfter &&
			time.Until(time.Unix(0, l.afterNs)) > maxClockDifference {
			return acqAhead(l.group, l.afterNs)
		}
		unled := l.hasNoLeader()
		switch {
		case !unled && !l.hasLeft():
			here = time.Now()
		case time.Since(here) < staleAfter:
		case unled:
			return cutOff(l.group)
		default:
			return movedAway(l.group)
		}
		select {
		case <-time.After(horizonEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hasNoLeader reports whether the group of the replica has no leader.
func (l *localSource) hasNoLeader() bool {
	m := l.engine.cluster.Load()
	return m != nil && m.HasNoLeader(l.group)
}

// raiseSessionAcq records up to where a client has read, so that a replica that is read later is
// not behind that: reads of a session are monotonic.
func (l *localSource) raiseSessionAcq(belowNs int64) {
	if m := l.engine.cluster.Load(); m != nil && belowNs > 0 {
		m.RaiseSessionAcq(l.group, belowNs-1)
	}
}

func (l *localSource) String() string { return fmt.Sprintf("group %d of this node", l.group) }

// rows implements source. Where there is only one, what add returns ends the scan.
func (l *localSource) rows(
	ctx context.Context, q *prepared, add store.Sink, _ *spill.Sorter,
) (wire.End, error) {
	columns := segment.AllColumns
	if q.KeysOnly {
		columns = segment.Keys
	}
	if len(q.filters) == 0 {
		stats, err := l.scanInto(ctx, q, q.Query, func(int) (store.Consumer, error) {
			return store.Consumer{Rows: add, Columns: columns}, nil
		})
		return endOf(stats, 0), err
	}
	stats, err := l.scan(ctx, q, columns, func(int) (store.Sink, uint32, error) {
		return add, 0, nil
	})
	return endOf(stats, 0), err
}

// count implements source.
func (l *localSource) count(ctx context.Context, q *prepared) (wire.End, error) {
	if len(q.Filters) == 0 {
		count, stats, err := l.store.CountConcurrent(ctx, q.Query, l.concurrentScans)
		return endOf(stats, count), err
	}
	var count atomic.Uint64
	stats, err := l.scan(ctx, q, 0, func(int) (store.Sink, uint32, error) {
		return func(b *record.Batch) error {
			count.Add(uint64(b.Len()))
			return nil
		}, 0, nil
	})
	return endOf(stats, count.Load()), err
}
