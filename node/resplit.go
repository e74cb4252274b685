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
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// splitPatience is how long a question or a command waits until all know of a split: for the
	// view of it, and for the leader of the group that was split off.
	splitPatience = 15 * time.Second
	splitPause    = 20 * time.Millisecond
	partSlots     = "slots" // of errors of groups that hold others than was asked for
)

// holds returns an error unless the store holds the slots that it is asked for.
func (n *local) holds() error {
	now := n.store.Slots()
	if now == n.held {
		return nil
	}
	return &wire.Error{Kind: wire.KindUnavailable, Part: partSlots, RetryAfterMs: retryAfterMs,
		Message: fmt.Sprintf("group %d was split and holds slots %d to %d by now; ask again for "+
			"what it holds", numberOf(n.group), now.From, now.To)}
}

// isSplit reports whether an error says that a group holds other slots than was asked for.
func isSplit(err error) bool {
	e := toWire(err)
	return e.Kind == wire.KindUnavailable && e.Part == partSlots
}

// handing is the first time that a source hands something over: from then on nobody else can be
// asked instead.
type handing struct {
	once sync.Once
	err  error
	done atomic.Bool
}

// handOut is called before a source hands something over, and returns an error when its store does
// not hold what was asked for any more; nothing was handed over then. It looks once: the store has
// taken the state that it answers from before, and that stays whole, whatever is split off it
// meanwhile.
func handOut(s source) error {
	l, here := s.(*local)
	if !here || l.handing == nil {
		return nil
	}
	l.handing.once.Do(func() {
		l.handing.err = l.holds()
		l.handing.done.Store(l.handing.err == nil)
	})
	return l.handing.err
}

// handed reports whether a source has handed something over.
func (n *local) handed() bool { return n.handing != nil && n.handing.done.Load() }

// afterSplit returns the sources of what one that failed was to answer for, once there may be
// others because groups were split; nil when that cannot help. Who was asked by another node leaves
// it to that one, which knows where the groups are.
func (n *Node) afterSplit(
	ctx context.Context, failed source, err error, began time.Time,
) []source {
	if scopeOf(ctx).groups != nil || time.Since(began) > splitPatience {
		return nil
	}
	spans := answersFor(failed)
	if !isSplit(err) && !n.settling(spans) {
		return nil
	}
	select {
	case <-time.After(splitPause):
	case <-ctx.Done():
		return nil
	}
	l := n.layout.Load()
	out, err := n.sourcesOf(ctx, l, func(g int) bool { return within(l.groups[g].span, spans) })
	if err != nil {
		return nil
	}
	return out
}

// answersFor returns the slots that a source answers for.
func answersFor(s source) []slots.Range {
	if d, far := s.(*distant); far {
		return d.spans
	}
	l := s.(*local)
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

// settling reports whether some of the slots are of groups that are being split.
func (n *Node) settling(spans []slots.Range) bool {
	for _, p := range n.layout.Load().groups {
		if p.settling && within(p.span, spans) {
			return true
		}
	}
	return false
}

// guarded is a command for a group as a view has it, which one that was split since refuses.
func guarded(v *cluster.View, group uint32, command []byte) []byte {
	return appendGuarded(nil, v, group, command)
}

func appendGuarded(dst []byte, v *cluster.View, group uint32, command []byte) []byte {
	return store.AppendWithin(dst, v.Groups[group].Slots, command)
}

// untilSplit does something with the groups of a view, and once more while some of them hold other
// slots than it says: they were split since, or are about to be.
func (n *Node) untilSplit(
	ctx context.Context, m *member.Member, do func(v *cluster.View) error,
) error {
	for began := time.Now(); ; {
		v := m.View()
		if v.DataGroups() == 0 {
			return errNoView
		}
		err := do(v)
		if !errors.Is(err, store.ErrOtherSlots) || time.Since(began) > splitPatience {
			return err
		}
		select {
		case <-time.After(splitPause):
		case <-ctx.Done():
			return err
		}
	}
}
