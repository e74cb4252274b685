package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// local is the node as it answers from one of its stores.
type local struct {
	*Node
	store *store.Store // in place of the node's
	group int

	fromSlot, toSlot uint32      // of the group; both 0 for all
	held             slots.Range // that its store must hold; zero where no group was split

	afterNs int64 // its horizon must have passed this before it is asked
	linear  bool  // and all must be there that any node had acknowledged

	// proved: since it is asked here it has come as far as a majority was, so that it does not lack
	// what was seen at another replica before.
	proved  *atomic.Bool
	handing *handing // of one question; nil where there is nobody else
}

const (
	// horizonEvery is how often a replica that lags is asked whether it has come far enough.
	horizonEvery = 2 * time.Millisecond
	// What is proved before it is asked for waits so long for each replica, and so long when some
	// could not.
	proveTimeout = 2 * time.Second
	provePause   = time.Second
)

// proveReplicas proves the replicas of this node when they come, so that the first questions need
// not wait for it.
func (n *Node) proveReplicas() {
	for {
		select {
		case <-n.unproved:
		case <-n.open.Done():
			return
		}
		for !n.proveAll() {
			select {
			case <-time.After(provePause):
			case <-n.open.Done():
				return
			}
		}
	}
}

// proveAll reports whether all replicas of this node are proved, or have no way to be.
func (n *Node) proveAll() bool {
	all := true
	for _, p := range n.layout.Load().groups {
		if p.here == nil || p.here.proved.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(n.open, proveTimeout)
		err := n.member.Load().ReadIndex(ctx, uint32(numberOf(p.here.group)))
		cancel()
		if err == nil {
			p.here.proved.Store(true)
		}
		all = all && (err == nil || errors.Is(err, replica.ErrGroupUnknown))
	}
	return all
}

// ready reports whether wait would return at once.
func (n *local) ready(ctx context.Context) bool {
	if n.linear || n.proved != nil && !n.proved.Load() {
		return false
	}
	if n.afterNs == 0 {
		return true
	}
	horizon, err := n.store.Horizon(ctx)
	return err == nil && horizon > n.afterNs
}

// wait returns when everything is there that must be.
func (n *local) wait(ctx context.Context) error {
	prove := n.proved != nil && !n.proved.Load()
	if m := n.member.Load(); (n.linear || prove) && m != nil {
		err := m.ReadIndex(ctx, uint32(n.group)+1)
		if errors.Is(err, replica.ErrGroupUnknown) {
			err = movedAway(n.group)
		}
		if err != nil {
			return err
		}
		if prove {
			n.proved.Store(true)
		}
	}
	began := time.Now()
	for here := began; n.afterNs > 0; {
		horizon, err := n.store.Horizon(ctx)
		if err != nil || horizon > n.afterNs {
			return err
		}
		if time.Since(began) > staleAfter && time.Until(time.Unix(0, n.afterNs)) > mayDiffer {
			return notThere(n.group, n.afterNs)
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

// unled reports whether the replica has lost its leader, and another has not taken its place.
func (n *local) unled() bool {
	m := n.member.Load()
	return m != nil && m.Unled(uint32(numberOf(n.group)))
}

// shown notes what an answer has shown: another replica that is asked instead must not be behind.
func (n *local) shown(belowNs int64) {
	if m := n.member.Load(); m != nil && belowNs > 0 {
		m.Shown(uint32(numberOf(n.group)), belowNs-1)
	}
}

func (n *local) String() string { return fmt.Sprintf("group %d of this node", n.group) }

// rows implements source. Where there is only one, what add returns ends the scan.
func (n *local) rows(
	ctx context.Context, q *record.Query, add store.Sink, _ *spill.Sorter,
) (wire.End, error) {
	parts := segment.AllParts
	if q.KeysOnly {
		parts = segment.Keys
	}
	stats, err := n.scan(ctx, q, parts, func(int) (store.Sink, uint32, error) {
		return add, 0, nil
	})
	return endOf(stats, 0), err
}

// count implements source. With filters nobody looks at anything behind them.
func (n *local) count(ctx context.Context, q *record.Query) (wire.End, error) {
	if len(q.Filters) == 0 {
		count, stats, err := n.store.Count(ctx, q)
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
