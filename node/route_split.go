package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// splitTimeout is how long a query or a command waits for a split to be complete: for the view
	// of it, and for the leader of the new group.
	splitTimeout = 15 * time.Second
	splitPause   = 20 * time.Millisecond
	partSlots    = "slots" // of errors of groups that hold other slots
)

// holds returns an error unless the store holds the slots of the query.
func (n *localSource) holds() error {
	now := n.store.Slots()
	if now == n.mustHold {
		return nil
	}
	return &wire.Error{Kind: wire.KindUnavailable, Part: partSlots, RetryAfterMs: retryAfterMs,
		Message: fmt.Sprintf("group %d was split and holds slots %d to %d by now; ask again for "+
			"what it holds", n.group, now.From, now.To)}
}

// isSplit reports whether an error says that a group was split and holds other slots.
func isSplit(err error) bool {
	e := toWire(err)
	return e.Kind == wire.KindUnavailable && e.Part == partSlots
}

// delivery is the first delivery of rows by a source: after it no other source can replace this
// one.
type delivery struct {
	once sync.Once
	err  error
	done atomic.Bool
}

// beginDelivery is called before a source delivers rows, and returns an error if its store does not
// hold the slots of the query any more; no row was delivered then. It checks once: the scan has
// pinned its view before, and the view does not change when the group is split later.
func beginDelivery(s source) error {
	l, here := s.(*localSource)
	if !here || l.delivery == nil {
		return nil
	}
	l.delivery.once.Do(func() {
		l.delivery.err = l.holds()
		l.delivery.done.Store(l.delivery.err == nil)
	})
	return l.delivery.err
}

// delivered reports whether a source has delivered rows.
func (n *localSource) delivered() bool { return n.delivery != nil && n.delivery.done.Load() }

// afterSplit returns the new sources of the slots of one that failed, after a pause in which a
// split may complete; nil if that cannot help, or if another node sent the query, which then
// retries itself.
func (n *Node) afterSplit(
	ctx context.Context, failed source, err error, began time.Time,
) []source {
	if optionsOf(ctx).groups != nil || time.Since(began) > splitTimeout {
		return nil
	}
	spans := answersFor(failed)
	if !isSplit(err) && !n.splitting(spans) {
		return nil
	}
	select {
	case <-time.After(splitPause):
	case <-ctx.Done():
		return nil
	}
	l := n.routes.Load()
	out, err := n.sourcesOf(ctx, l, func(g cluster.GroupID) bool {
		return within(l.route(g).slots, spans)
	})
	if err != nil {
		return nil
	}
	return out
}

// answersFor returns the slots that a source answers for.
func answersFor(s source) []slots.Range {
	if d, far := s.(*remoteSource); far {
		return d.slots
	}
	l := s.(*localSource)
	return []slots.Range{{From: l.fromSlot, To: l.toSlot}}
}

func within(r slots.Range, spans []slots.Range) bool {
	for _, span := range spans {
		if r.Within(span) {
			return true
		}
	}
	return false
}

// splitting reports whether a group of some of the slots is being split.
func (n *Node) splitting(spans []slots.Range) bool {
	for _, p := range n.routes.Load().groups {
		if p.splitting && within(p.slots, spans) {
			return true
		}
	}
	return false
}

// guarded returns a command that a group rejects if it was split since the view.
func guarded(v *cluster.View, group cluster.GroupID, command []byte) []byte {
	return appendGuarded(nil, v, group, command)
}

func appendGuarded(dst []byte, v *cluster.View, group cluster.GroupID, command []byte) []byte {
	return commands.AppendWithin(dst, v.Groups[group].Slots, command)
}

// retrySplits calls do with the current view, and again while groups reject it because they were
// split, for splitTimeout at most.
func (n *Node) retrySplits(
	ctx context.Context, m *member.Member, do func(v *cluster.View) error,
) error {
	for began := time.Now(); ; {
		v := m.View()
		if v.DataGroups() == 0 {
			return errNoView
		}
		err := do(v)
		if !errors.Is(err, store.ErrOtherSlots) || time.Since(began) > splitTimeout {
			return err
		}
		select {
		case <-time.After(splitPause):
		case <-ctx.Done():
			return err
		}
	}
}
