package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/feed"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxAhead is how far a position that another node of the cluster reported may be ahead of this
	// node's clock: clocks differ, and a position further ahead is of another history.
	maxAhead = 10 * time.Second
	// staleAfter is how long the horizon of a replica without a leader may stand still before other
	// replicas are read: an election takes less.
	staleAfter = 3 * time.Second
	// feedRetryFor is how long a feed of a cluster retries before its client gets an error.
	feedRetryFor = 30 * time.Second
	feedPause    = 100 * time.Millisecond
)

// changes implements source. Events are bound to the slots of the group: other groups have their
// own.
//
// A replica may be behind the one that the position is from, and waits until it has passed it;
// without follow also until it has what was put through this node. A replica without a leader
// fails, because another one has the new changes.
func (l *localSource) changes(
	ctx context.Context, q *prepared, fromNs int64, follow bool, d *feed.Demand,
	emit func(*store.Slice) error,
) error {
	if l.engine.cluster.Load() != nil {
		later := *l
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
	const beat = feed.SourceBeat
	_, err := l.changesEvery(ctx, q, fromNs, follow, beat, d, func(s *store.Slice) error {
		if s.ClosedNs != last {
			last, movedAt = s.ClosedNs, time.Now()
		} else if time.Since(movedAt) > staleAfter && l.hasLeft() {
			return movedAway(l.group)
		}
		if err := l.checkSlots(); err != nil {
			return err // the slice lacks rows of slots that were split off
		}
		for i := range s.Events {
			s.Events[i].FromSlot, s.Events[i].ToSlot = l.fromSlot, l.toSlot
		}
		return emit(s)
	})
	return err
}

// closeSoon makes the leader let the horizon of the group pass an acq soon.
func (l *localSource) closeSoon(acqNs int64) {
	if m := l.engine.cluster.Load(); m != nil {
		m.CloseSoon(l.group, acqNs)
	}
}

// hasLeft reports whether the group has left this node, or has another store here.
func (l *localSource) hasLeft() bool {
	route := l.engine.routes.Load().route(l.group)
	return route != nil && (route.local == nil || route.local.store != l.store)
}

// changesOfAll is changesOnce, which in a cluster continues with other sources when one fails.
func (e *Engine) changesOfAll(
	ctx context.Context, q *prepared, fromNs int64, follow bool, beat time.Duration,
	emit func(*store.Slice) error,
) (closedNs int64, err error) {
	for movedAt := time.Now(); ; {
		began := fromNs
		closedNs, err = e.changesOnce(ctx, q, fromNs, follow, beat, emit)
		if closedNs != began {
			movedAt = time.Now()
		}
		if err == nil || !e.mayGoOn(ctx, q.options, err) || time.Since(movedAt) > feedRetryFor {
			return closedNs, err
		}
		fromNs = closedNs
		select {
		case <-time.After(feedPause): // by then routes may have changed
		case <-ctx.Done():
			return closedNs, ctx.Err()
		}
	}
}

// mayGoOn reports whether a feed that failed may continue at another node.
func (e *Engine) mayGoOn(ctx context.Context, options request.Options, err error) bool {
	if options.Groups != nil && isSplit(err) {
		return false // the other node must refresh its routing table
	}
	return e.cluster.Load() != nil && ctx.Err() == nil && sourceUnavailable(err) &&
		errors.As(err, new(*nodeerror.SourceError))
}

// changes implements source.
func (r *remoteSource) changes(
	ctx context.Context, q *prepared, fromNs int64, follow bool, d *feed.Demand,
	emit func(*store.Slice) error,
) error {
	var slice store.Slice
	var stopped error
	c := r.client().OfFeed(r.addDemand(d))
	err := c.ChangesOnce(ctx, q.Query, fromNs, follow, feed.SourceBeat,
		func(b client.ChangeBatch) error {
			slice.Rows, slice.Events, slice.ClosedNs = record.Batch{}, slice.Events[:0], b.ClosedNs
			if b.Rows != nil {
				slice.Rows = *b.Rows
			}
			if e := b.Event; e != nil {
				slice.Events = append(slice.Events, event.Event{AcqNs: e.AcqNs, Box: e.Box,
					Kind: event.Kind(e.Kind), FromSlot: e.FromSlot, ToSlot: e.ToSlot})
			}
			stopped = emit(&slice)
			return stopped
		})
	if stopped != nil {
		return stopped
	}
	return r.wireError(ctx, err)
}

// feedWaker tells another node that one of its feeds is waited for.
type feedWaker interface {
	PassFeed(node cluster.NodeID, feed uint64, acqNs int64)
}

// addDemand assigns a random number to a feed of another node, and lets a demand wake it.
func (r *remoteSource) addDemand(d *feed.Demand) (number uint64) {
	if r.feedWaker == nil {
		return 0
	}
	number = 1 + rand.Uint64()>>1
	d.Begin(func(acqNs int64) { r.feedWaker.PassFeed(r.peer.id, number, acqNs) })
	return number
}
