package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Policy is a retention and the groups of a cluster that have it, by their numbers; nil: all.
type Policy struct {
	retention.Rule
	Groups []cluster.GroupID
}

// events implements source.
func (l *localSource) events(context.Context) ([]event.Event, error) {
	all := l.store.EventsWithRemovals()
	for i := range all {
		all[i].FromSlot, all[i].ToSlot = l.fromSlot, l.toSlot
	}
	return all, nil
}

// events implements source.
func (r *remoteSource) events(ctx context.Context) (out []event.Event, err error) {
	all, err := r.client().Events(ctx)
	if err != nil {
		return nil, r.wireError(ctx, err)
	}
	for i := range all {
		e, err := eventOf(&all[i])
		if err != nil {
			return nil, fmt.Errorf("its event at acq %d: %w", all[i].AcqNs, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// eventOf is the event of a document.
func eventOf(in *api.Event) (e event.Event, err error) {
	e = event.Event{AcqNs: in.AcqNs}
	if in.Done != nil && in.Removed != nil {
		e.Done, e.Removed = *in.Done, *in.Removed
	}
	if r := in.Removal; r != nil {
		e.Removal = &event.RemovalForecast{Rows: r.Records, Bytes: r.Bytes, NextNs: r.NextNs,
			DoneNs: r.DoneNs}
	}
	for _, kind := range []event.Kind{event.Erase, event.Purge,
		event.Retention} {
		if kind.String() == in.Kind {
			e.Kind = kind
		}
	}
	if e.Kind == 0 {
		return e, fmt.Errorf("its kind is %q", params.Clip(in.Kind))
	}
	if len(in.Slots) == 2 {
		e.FromSlot, e.ToSlot = in.Slots[0], in.Slots[1]
	}
	for d := range record.Dim(record.NumDims) {
		text, some := in.Box[d.String()]
		if !some {
			continue
		}
		if e.Box[d], err = selector.Parse(d, text, time.Time{}); err != nil {
			return e, err
		}
	}
	return e, nil
}

// Events lists erases, purges and steps of retentions, oldest first; see [store.Store.Events]. In a
// cluster each group has its own of them, of its slots and with an acq of its own.
func (e *Engine) Events(
	ctx context.Context, options request.Options,
) ([]event.Event, error) {
	if only := e.routes.Load().single; only != nil {
		return e.store.EventsWithRemovals(), nil
	}
	a, err := askSources(ctx, e, options.CompleteOnly(), askFacts, &record.Box{}, func(
		ctx context.Context, s source,
	) ([]event.Event, wire.End, error) {
		all, err := s.events(ctx)
		return all, wire.End{}, err
	})
	if err != nil {
		return nil, err
	}
	all := slices.Concat(a.answers...)
	slices.SortStableFunc(all, func(x, y event.Event) int {
		return cmp.Or(cmp.Compare(x.AcqNs, y.AcqNs), cmp.Compare(x.FromSlot, y.FromSlot))
	})
	return all, nil
}

// policies implements source.
func (l *localSource) policies(context.Context) (out []Policy, err error) {
	for _, r := range l.store.Retention() {
		out = append(out, Policy{r, []cluster.GroupID{l.group}})
	}
	return out, nil
}

// policies implements source.
func (r *remoteSource) policies(ctx context.Context) (out []Policy, err error) {
	all, err := r.client().Retention(ctx)
	if err != nil {
		return nil, r.wireError(ctx, err)
	}
	for _, p := range all {
		one := Policy{retention.Rule{CID: p.CID, MOID: p.MOID, MaxCapAgeNs: p.MaxCapAgeNs,
			MaxAcqAgeNs: p.MaxAcqAgeNs, DelayNs: p.DelayNs, Held: p.Held}, nil}
		for _, g := range p.Groups {
			one.Groups = append(one.Groups, cluster.GroupID(g))
		}
		if len(one.Groups) == 0 {
			one.Groups = r.groups
		}
		out = append(out, one)
	}
	return out, nil
}

// Retention lists the policies of all groups that are asked; see [store.Store.Retention].
func (e *Engine) Retention(
	ctx context.Context, options request.Options,
) ([]Policy, error) {
	type some struct {
		policies []Policy
		Groups   int
	}
	a, err := askSources(ctx, e, options.CompleteOnly(), askFacts, &record.Box{}, func(
		ctx context.Context, s source,
	) (some, wire.End, error) {
		all, err := s.policies(ctx)
		return some{all, groupsOf(s)}, wire.End{}, err
	})
	if err != nil {
		return nil, err
	}
	var all []Policy
	groups := 0
	for _, from := range a.answers { // alternatives may have answered
		all, groups = append(all, from.policies...), groups+from.Groups
	}
	return joinPolicies(all, groups), nil
}

func groupsOf(s source) int {
	if d, far := s.(*remoteSource); far {
		return len(d.groups)
	}
	return 1
}

// joinPolicies lists each policy once, with the groups that have it unless all groups do.
func joinPolicies(all []Policy, groups int) (out []Policy) {
	part := func(a, b *int32) int {
		switch {
		case a == nil || b == nil:
			return cmp.Compare(boolOf(a != nil), boolOf(b != nil))
		default:
			return cmp.Compare(*a, *b)
		}
	}
	compare := func(x, y Policy) int {
		return cmp.Or(part(x.CID, y.CID), part(x.MOID, y.MOID),
			cmp.Compare(x.MaxCapAgeNs, y.MaxCapAgeNs), cmp.Compare(x.MaxAcqAgeNs, y.MaxAcqAgeNs),
			cmp.Compare(x.DelayNs, y.DelayNs), cmp.Compare(boolOf(x.Held), boolOf(y.Held)))
	}
	slices.SortStableFunc(all, compare)
	for _, p := range all {
		if last := len(out) - 1; last >= 0 && compare(out[last], p) == 0 {
			out[last].Groups = append(slices.Clip(out[last].Groups), p.Groups...)
		} else {
			out = append(out, p)
		}
	}
	for i := range out {
		if slices.Sort(out[i].Groups); len(out[i].Groups) == groups {
			out[i].Groups = nil
		}
	}
	return out
}

func boolOf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Expired counts the records that a policy would hide now; see [retention.Rule.Expired].
func (e *Engine) Expired(ctx context.Context, r retention.Rule) (uint64, error) {
	return r.Expired(e.clock.NowNs(), func(q *record.Query) (uint64, error) {
		count, _, err := e.Count(ctx, request.Options{}, q)
		return count, err
	})
}
