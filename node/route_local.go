package node

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
	*Node
	store *store.Store // of the group; hides that of Node
	group cluster.GroupID

	fromSlot, toSlot uint32      // of the group; both 0 for all
	mustHold         slots.Range // that its store must hold; zero if the group was never split

	afterNs int64 // acq that its horizon must pass before a read
	linear  bool  // linearizable: a read sees all that any node has acknowledged

	// caughtUp is set once the replica has reached the commit index that a majority had when it was
	// routed to: from then on it does not lack what clients read at another replica before.
	caughtUp *atomic.Bool
	delivery *delivery // of one query; nil without alternatives
}

const (
	// horizonEvery is how often the horizon of a lagging replica is polled.
	horizonEvery = 2 * time.Millisecond
	// catchUpReplicas waits catchUpTimeout for each replica, and catchUpPause before it retries.
	catchUpTimeout = 2 * time.Second
	catchUpPause   = time.Second
)

// catchUpReplicas runs a read index for new replicas of this node, so that the first queries do not
// wait for it.
func (n *Node) catchUpReplicas() {
	for {
		select {
		case <-n.needsCatchUp:
		case <-n.open.Done():
			return
		}
		for !n.catchUpAll() {
			select {
			case <-time.After(catchUpPause):
			case <-n.open.Done():
				return
			}
		}
	}
}

// catchUpAll reports whether all replicas of this node have caught up, or are gone.
func (n *Node) catchUpAll() bool {
	all := true
	for _, p := range n.routes.Load().groups {
		if p.local == nil || p.local.caughtUp.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(n.open, catchUpTimeout)
		err := n.member.Load().ReadIndex(ctx, p.local.group)
		cancel()
		if err == nil {
			p.local.caughtUp.Store(true)
		}
		all = all && (err == nil || errors.Is(err, replica.ErrGroupUnknown))
	}
	return all
}

// ready reports whether wait would return at once.
func (n *localSource) ready(ctx context.Context) bool {
	if n.linear || n.caughtUp != nil && !n.caughtUp.Load() {
		return false
	}
	if n.afterNs == 0 {
		return true
	}
	horizon, err := n.store.Horizon(ctx)
	return err == nil && horizon > n.afterNs
}

// wait returns when the store has all that a read must see.
func (n *localSource) wait(ctx context.Context) error {
	prove := n.caughtUp != nil && !n.caughtUp.Load()
	if m := n.member.Load(); (n.linear || prove) && m != nil {
		err := m.ReadIndex(ctx, n.group)
		if errors.Is(err, replica.ErrGroupUnknown) {
			err = movedAway(n.group)
		}
		if err != nil {
			return err
		}
		if prove {
			n.caughtUp.Store(true)
		}
	}
	began := time.Now()
	for here := began; n.afterNs > 0; {
		horizon, err := n.store.Horizon(ctx)
		if err != nil || horizon > n.afterNs {
			return err
		}
		if time.Since(began) > staleAfter &&
			time.Until(time.Unix(0, n.afterNs)) > maxClockDifference {
			return acqAhead(n.group, n.afterNs)
		}
		unled := n.unled()
		switch {
		case !unled && !n.left():
			here = time.Now()
		case time.Since(here) < staleAfter:
		case unled:
			return cutOff(n.group)
		default:
			return movedAway(n.group)
		}
		select {
		case <-time.After(horizonEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// unled reports whether the group of the replica has no leader.
func (n *localSource) unled() bool {
	m := n.member.Load()
	return m != nil && m.Unled(n.group)
}

// noteRead records up to where a client has read, so that another replica that is read later is not
// behind that.
func (n *localSource) noteRead(belowNs int64) {
	if m := n.member.Load(); m != nil && belowNs > 0 {
		m.Shown(n.group, belowNs-1)
	}
}

func (n *localSource) String() string { return fmt.Sprintf("group %d of this node", n.group) }

// rows implements source. Where there is only one, what add returns ends the scan.
func (n *localSource) rows(
	ctx context.Context, q *prepared, add store.Sink, _ *spill.Sorter,
) (wire.End, error) {
	parts := segment.AllColumns
	if q.KeysOnly {
		parts = segment.Keys
	}
	stats, err := n.scan(ctx, q, parts, func(int) (store.Sink, uint32, error) {
		return add, 0, nil
	})
	return endOf(stats, 0), err
}

// count implements source.
func (n *localSource) count(ctx context.Context, q *prepared) (wire.End, error) {
	if len(q.Filters) == 0 {
		count, stats, err := n.store.Count(ctx, q.Query)
		return endOf(stats, count), err
	}
	var count atomic.Uint64
	stats, err := n.scan(ctx, q, 0, func(int) (store.Sink, uint32, error) {
		return func(b *record.Batch) error {
			count.Add(uint64(b.Len()))
			return nil
		}, 0, nil
	})
	return endOf(stats, count.Load()), err
}
