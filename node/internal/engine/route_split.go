package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/wire"
)

// partSlots is the part of errors of groups that hold other slots.
const partSlots = "slots"

// checkSlots returns an error unless the store holds the slots of the query.
func (l *localSource) checkSlots() error {
	now := l.store.Slots()
	if now == l.required {
		return nil
	}
	return &wire.Error{Kind: wire.KindUnavailable, Part: partSlots,
		RetryAfterMs: nodeerror.RetryAfterMs,
		Message: fmt.Sprintf("group %d was split and holds slots %d to %d by now; ask again for "+
			"what it holds", l.group, now.From, now.To)}
}

// isSplit reports whether an error says that a group was split and holds other slots.
func isSplit(err error) bool {
	e := nodeerror.ToWire(err)
	return e.Kind == wire.KindUnavailable && e.Part == partSlots
}

// firstDelivery is the first delivery of rows by a source: the first time that the consumer of the
// answer gets some of it. After that no other source can replace this one.
type firstDelivery struct {
	once sync.Once
	err  error
	done atomic.Bool
}

// beginDelivery is called before a source delivers rows, and returns an error if its store does not
// hold the slots of the query any more; no row was delivered then. It checks once: the scan has
// pinned its view before, and the view does not change when the group is split later.
func beginDelivery(s source) error {
	l, here := s.(*localSource)
	if !here || l.firstDelivery == nil {
		return nil
	}
	l.firstDelivery.once.Do(func() {
		l.firstDelivery.err = l.checkSlots()
		l.firstDelivery.done.Store(l.firstDelivery.err == nil)
	})
	return l.firstDelivery.err
}

// delivered reports whether a source has delivered rows.
func (l *localSource) delivered() bool {
	return l.firstDelivery != nil && l.firstDelivery.done.Load()
}

// afterSplit returns the new sources of the slots of one that failed, after a pause in which a
// split may complete; nil if that cannot help, or if another node sent the query, which then
// retries itself.
func (e *Engine) afterSplit(
	ctx context.Context, options request.Options, failed source, err error, began time.Time,
) []source {
	if options.Groups != nil || time.Since(began) > member.SplitTimeout {
		return nil
	}
	spans := answersFor(failed)
	if !isSplit(err) && !e.isSplitting(spans) {
		return nil
	}
	select {
	case <-time.After(member.SplitPause):
	case <-ctx.Done():
		return nil
	}
	t := e.routes.Load()
	out, err := e.sourcesOf(options, t, func(g cluster.GroupID) bool {
		return withinAny(t.route(g).slots, spans)
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

// withinAny reports whether a range of slots is inside one of some others.
func withinAny(r slots.Range, spans []slots.Range) bool {
	for _, span := range spans {
		if r.Within(span) {
			return true
		}
	}
	return false
}

// isSplitting reports whether a group of some of the slots is being split.
func (e *Engine) isSplitting(spans []slots.Range) bool {
	for _, route := range e.routes.Load().groups {
		if route.splitting && withinAny(route.slots, spans) {
			return true
		}
	}
	return false
}
