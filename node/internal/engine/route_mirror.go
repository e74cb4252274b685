package engine

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"slices"

	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/storewire"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// state implements source.
func (l *localSource) state(ctx context.Context) ([]store.State, error) {
	st, err := l.store.State(ctx)
	return []store.State{st}, err
}

// state implements source. A frame is of one group.
func (r *remoteSource) state(ctx context.Context) (out []store.State, err error) {
	for i := range r.groups {
		in, err := r.ofGroup(i).client().SyncState(ctx)
		if err != nil {
			return nil, r.wireError(ctx, err)
		}
		out = append(out, stateOf(&in))
	}
	return out, nil
}

// ofGroup is one of the groups of the other node, by its index among them.
func (r *remoteSource) ofGroup(i int) *remoteSource {
	return &remoteSource{peer: r.peer, groups: r.groups[i : i+1], after: r.after[i : i+1],
		slots: r.slots[i : i+1], required: r.required[i : i+1]}
}

// stateOf is the reverse of storewire.State.
func stateOf(in *wire.State) store.State {
	st := store.State{Store: hex.EncodeToString(in.Store[:]), Box: in.Box, Empty: in.Empty,
		HorizonNs: in.HorizonNs, Lineage: in.Lineage, Held: in.Held, HeldNs: in.HeldNs}
	of := storewire.Range(&wire.Range{Of: in.Of, History: in.History})
	st.Of, st.Events, st.Policies = of.Of, of.Events, of.Policies
	return st
}

// State returns what a mirror needs besides records; see [store.Store.State]. Of a cluster
// groups is how many give acqs on their own; else it is 0.
func (e *Engine) State(
	ctx context.Context, options request.Options,
) (st store.State, groups int, err error) {
	if e.routes.Load().single != nil {
		st, err = e.store.State(ctx)
		return st, 0, err
	}
	a, err := askSources(ctx, e, options.CompleteOnly(), askFacts, &record.Box{}, func(
		ctx context.Context, s source,
	) ([]store.State, wire.End, error) {
		all, err := s.state(ctx)
		return all, wire.End{}, err
	})
	if err != nil {
		return st, 0, err
	}
	all := slices.Concat(a.answers...)
	if len(options.Groups) > 0 || options.OnlyGroup > 0 {
		if len(all) != 1 {
			return st, 0, params.Bad(request.ParamGroups, errors.New("a state is of one group"))
		}
		return all[0], 0, nil
	}
	if st, err = joinStates(all); err != nil {
		return st, 0, err
	}
	if id := e.routes.Load().cluster; id != "" {
		st.Store = id
	}
	if st.Of == "" {
		groups = len(all)
	}
	return st, groups, nil
}

// joinStates is the state of a cluster of those of its groups. A copy ends where the first of them
// does; a group that is still empty has nothing of it.
func joinStates(all []store.State) (store.State, error) {
	out := store.State{Empty: true, HorizonNs: math.MaxInt64}
	copies := slices.ContainsFunc(all, func(st store.State) bool { return st.Of != "" })
	for _, st := range all {
		switch {
		case st.Of == "" && copies && !st.Empty, out.Of != "" && st.Of != "" && st.Of != out.Of:
			return out, errors.New("some groups of this cluster are copies and others are not, " +
				"or of other stores; ask for one group, or promote them all")
		case st.Of == "" && copies:
			st.HorizonNs, st.Events, st.Policies = 0, nil, nil
		case copies:
			out.Of, out.Box = st.Of, st.Box
		}
		if st.Of != "" && st.HeldNs >= out.HeldNs { // the source must have what any group has
			out.Held, out.HeldNs = st.Held, st.HeldNs
		}
		out.Empty = out.Empty && st.Empty
		out.Events = append(out.Events, st.Events...)
		if st.HorizonNs < out.HorizonNs || !copies {
			out.Policies = st.Policies
		}
		out.HorizonNs = min(out.HorizonNs, st.HorizonNs)
	}
	out.Events = slices.DeleteFunc(out.Events, func(e event.Event) bool {
		return e.AcqNs >= out.HorizonNs
	})
	slices.SortStableFunc(out.Events, func(x, y event.Event) int {
		return cmp.Compare(x.AcqNs, y.AcqNs)
	})
	if copies { // which have the same events in all groups
		out.Events = slices.CompactFunc(out.Events, func(x, y event.Event) bool {
			return x.AcqNs == y.AcqNs
		})
	}
	return out, nil
}

// cut implements source.
func (l *localSource) cut(
	ctx context.Context, fromNs, toNs int64, rows uint64,
) ([][]int64, error) {
	cuts, err := l.store.Cut(ctx, fromNs, toNs, rows)
	return [][]int64{cuts}, err
}

// cut implements source. The digests of a group say how its rows lie: all of them, also where it is
// of a box which holds next to none, so that none is read.
func (r *remoteSource) cut(
	ctx context.Context, fromNs, toNs int64, rows uint64,
) (out [][]int64, err error) {
	var next record.Box
	next[record.Cap] = record.RangeSet{record.At(record.Cap.Min())}
	for i := range r.groups {
		all, err := r.ofGroup(i).client().Digest(ctx, &wire.DigestQuery{
			Box: next, Cuts: []int64{fromNs, toNs}, Rows: rows})
		if err != nil {
			return nil, r.wireError(ctx, err)
		}
		cuts := []int64{fromNs}
		for _, d := range all.Slices {
			cuts = append(cuts, d.ToNs)
		}
		out = append(out, cuts)
	}
	return out, nil
}

// cutAll divides the acqs of a range so that each slice has roughly that many rows at most, like
// [store.Store.Cut]. Each group is cut finer, so that slices between common cuts have no more rows
// although a cut divides slices of other groups.
func (e *Engine) cutAll(
	ctx context.Context, options request.Options, fromNs, toNs int64, rows uint64,
) ([]int64, error) {
	groups := len(options.Groups)
	switch {
	case options.OnlyGroup > 0:
		groups = 1
	case groups == 0:
		groups = len(e.routes.Load().groups)
	}
	share := rows
	if groups > 1 {
		share = max(1, rows/uint64(2*groups))
	}
	a, err := askSources(ctx, e, options.CompleteOnly(), askFacts, &record.Box{}, func(
		ctx context.Context, s source,
	) ([][]int64, wire.End, error) {
		cuts, err := s.cut(ctx, fromNs, toNs, share)
		return cuts, wire.End{}, err
	})
	if err != nil {
		return nil, err
	}
	return joinCuts(slices.Concat(a.answers...)), nil
}

// joinCuts takes of the cuts of groups one for each group as one of all, MaxSlices slices at most.
func joinCuts(all [][]int64) []int64 {
	end := int64(math.MaxInt64)
	var inner []int64
	for _, cuts := range all {
		end = min(end, cuts[len(cuts)-1])
		inner = append(inner, cuts[1:]...)
	}
	slices.Sort(inner)
	out := []int64{all[0][0]}
	for i, cut := range inner {
		if (i+1)%len(all) == 0 && cut > out[len(out)-1] && cut < end {
			out = append(out, cut)
		}
		if len(out) > digest.MaxSlices {
			break
		}
	}
	if len(out) > digest.MaxSlices {
		return out // a sync that resumes from there gets the rest
	}
	return append(out, end)
}
