package node

import (
	"context"
	"errors"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxAhead is how far above the clock of this node a position may lie that another node of the
	// cluster gave: clocks differ, and what is further ahead is of another history.
	maxAhead = 10 * time.Second
	// staleAfter is how long the horizon of a replica may rest that lost its leader, before others
	// are asked: an election is over sooner.
	staleAfter = 3 * time.Second
	// feedRetryFor is how long a feed of a cluster tries to go on before its reader hears of it.
	feedRetryFor = 30 * time.Second
	feedPause    = 100 * time.Millisecond
)

// changes implements source. An event is only of what the group holds: others have their own.
//
// A replica may be behind the one that the position is of, and waits until it is there; who asks
// for what there is, also for what was put through this node. One that lost its leader says so, for
// another one has what comes now.
func (n *localSource) changes(
	ctx context.Context, q *record.Query, fromNs int64, follow bool, d *demand,
	emit func(*store.Slice) error,
) error {
	if n.member.Load() != nil {
		later := *n
		if follow {
			later.afterNs = 0
		}
		if fromNs > 0 && fromNs != SinceNow {
			later.afterNs = max(later.afterNs, fromNs-1)
		}
		if err := later.wait(ctx); err != nil {
			return err
		}
	}
	last, movedAt := int64(0), time.Now()
	_, err := n.changesEvery(ctx, q, fromNs, follow, sourceBeat, d, func(s *store.Slice) error {
		if s.ClosedNs != last {
			last, movedAt = s.ClosedNs, time.Now()
		} else if time.Since(movedAt) > staleAfter && n.left() {
			return movedAway(n.group)
		}
		if err := n.holds(); err != nil {
			return err // what was split off has rows that are not in the slice
		}
		for i := range s.Events {
			s.Events[i].FromSlot, s.Events[i].ToSlot = n.fromSlot, n.toSlot
		}
		return emit(s)
	})
	return err
}

// closeSoon lets the horizon of the group pass an acq soon, by the node that leads it.
func (n *localSource) closeSoon(acqNs int64) {
	if m := n.member.Load(); m != nil {
		m.CloseSoon(uint32(numberOf(n.group)), acqNs)
	}
}

// left reports whether this node does not answer for the group any more, or from another store.
func (n *localSource) left() bool {
	groups := n.routes.Load().groups
	return n.group < len(groups) &&
		(groups[n.group].local == nil || groups[n.group].local.store != n.store)
}

// changesOfAll is changesOnce, which in a cluster goes on with others when a source fails.
func (n *Node) changesOfAll(
	ctx context.Context, q *record.Query, fromNs int64, follow bool, beat time.Duration,
	emit func(*store.Slice) error,
) (closedNs int64, err error) {
	for movedAt := time.Now(); ; {
		began := fromNs
		closedNs, err = n.changesOnce(ctx, q, fromNs, follow, beat, emit)
		if closedNs != began {
			movedAt = time.Now()
		}
		if err == nil || !n.mayGoOn(ctx, err) || time.Since(movedAt) > feedRetryFor {
			return closedNs, err
		}
		fromNs = closedNs
		select {
		case <-time.After(feedPause): // by then there may be other places
		case <-ctx.Done():
			return closedNs, ctx.Err()
		}
	}
}

// mayGoOn reports whether a feed that failed may find what it reads at another node.
func (n *Node) mayGoOn(ctx context.Context, err error) bool {
	if optionsOf(ctx).groups != nil && isSplit(err) {
		return false // who asks has to look anew whom to ask
	}
	return n.member.Load() != nil && ctx.Err() == nil && errors.As(err, new(*SourceError)) &&
		sourceUnavailable(err)
}
