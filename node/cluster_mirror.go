package node

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/internal/storewire"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// state implements source.
func (n *localSource) state(ctx context.Context) ([]store.State, error) {
	st, err := n.store.State(ctx)
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

// ofGroup is one of the groups of the other node, by its place among them.
func (r *remoteSource) ofGroup(i int) *remoteSource {
	return &remoteSource{peer: r.peer, groups: r.groups[i : i+1], after: r.after[i : i+1],
		slots: r.slots[i : i+1], mustHold: r.mustHold[i : i+1]}
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
func (n *Node) State(ctx context.Context) (st store.State, groups int, err error) {
	if n.routes.Load().single != nil {
		st, err = n.store.State(ctx)
		return st, 0, err
	}
	a, err := ask(whole(ctx), n, askFacts, &record.Box{}, func(ctx context.Context, s source) (
		[]store.State, wire.End, error,
	) {
		all, err := s.state(ctx)
		return all, wire.End{}, err
	})
	if err != nil {
		return st, 0, err
	}
	all := slices.Concat(a.answers...)
	if asked := optionsOf(ctx); len(asked.groups) > 0 || asked.onlyGroup > 0 {
		if len(all) != 1 {
			return st, 0, params.Bad(paramGroups, errors.New("a state is of one group"))
		}
		return all[0], 0, nil
	}
	if st, err = joinStates(all); err != nil {
		return st, 0, err
	}
	if m := n.member.Load(); m != nil {
		id := m.View().Cluster
		st.Store = hex.EncodeToString(id[:])
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
				"or of other stores; ask for one group, or release them all")
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

// putRangeInGroups adds a range to a cluster that is a copy: to each group its rows, and to all
// what hides rows; or to one group, which then is a copy by itself. Where that is cut short, groups
// end at different acqs, and take of the ranges of the next run what they lack.
func (n *Node) putRangeInGroups(
	ctx context.Context, m *member.Member, r *mirror.Range,
) (horizonNs int64, err error) {
	if m.View().DataGroups() == 0 {
		return 0, errNoView
	}
	if r.FromNs == 0 { // no group may become a copy where others cannot
		for group := range m.View().Data() {
			if m.View().Splitting(group) {
				return 0, fmt.Errorf("group %d: %w", group, store.ErrOtherSlots)
			}
		}
		st, _, err := n.State(ctx)
		if err == nil && st.Of == "" && !st.Empty {
			err = fmt.Errorf("%w: the cluster holds records or events of its own; copy into a "+
				"new one, or give the records new acqs", store.ErrNotCopied)
		}
		if err != nil {
			return 0, err
		}
	}
	if _, err := commands.AppendRange(nil, r); err != nil { // as a whole
		return 0, err
	}
	rows := r.Rows
	if rows == nil {
		rows = new(record.Batch)
	}
	var split sync.Mutex
	var of *cluster.View // that of parts
	var parts []*record.Batch
	only := optionsOf(ctx).onlyGroup
	errs, err := n.eachGroup(ctx, m, func(v *cluster.View, group cluster.GroupID) error {
		if only > 0 && group != only {
			return nil
		}
		own := *r
		split.Lock()
		if of != v {
			of, parts = v, puts.SplitByGroup(rows, v.Owners())
		}
		own.Rows = parts[group]
		split.Unlock()
		if only > 0 && (own.Rows == nil && rows.Len() > 0 || own.Rows != nil &&
			own.Rows.Len() < rows.Len()) {
			return notOfGroup(group, rows, v)
		}
		own.Box, own.Events = cloneBox(&r.Box), slices.Clone(r.Events) // made regular in place
		command, err := commands.AppendRange(nil, &own)
		if err == nil {
			_, err = m.Do(ctx, group, guarded(v, group, command), true)
		}
		return err
	})
	if err == nil {
		err = ofGroups(errs)
	}
	return r.ToNs, err
}

// notOfGroup returns the error of a row that belongs to another group than it was put to.
func notOfGroup(group cluster.GroupID, rows *record.Batch, v *cluster.View) error {
	owners := v.Owners()
	for i := range rows.Len() {
		if g := owners.Group(slots.Of(rows.CID[i], rows.MID[i])); g != group {
			return &wire.Error{Kind: wire.KindInvalid, Part: paramOfGroup,
				Message: fmt.Sprintf("device %d of tenant %d is of group %d here, not of %d: the "+
					"groups of both clusters must have the same slots, as when both were made "+
					"with as many and none was split", rows.MID[i], rows.CID[i], g, group)}
		}
	}
	return nil
}

// cloneBox returns a box that can be made regular by itself.
func cloneBox(box *record.Box) (out record.Box) {
	for d, set := range box {
		out[d] = slices.Clone(set)
	}
	return out
}

// ofGroups adds group numbers to the errors of eachGroup; an error that is the same in all groups
// is returned once.
func ofGroups(errs []error) error {
	var all []error
	for group, err := range errs {
		if err != nil {
			all = append(all, &SourceError{Source: fmt.Sprintf("group %d", group), Err: err})
		}
	}
	if len(all) == len(errs)-1 {
		return errs[1]
	}
	return errors.Join(all...)
}

// releaseGroups makes a cluster that is a copy one of its own.
func (n *Node) releaseGroups(ctx context.Context, m *member.Member) error {
	command := commands.AppendRelease(nil)
	errs, err := n.eachGroup(ctx, m, func(v *cluster.View, group cluster.GroupID) error {
		answer, err := m.Do(ctx, group, guarded(v, group, command), true)
		if answer.Again && errors.Is(err, store.ErrNoCopy) {
			return nil // it was released the first time
		}
		return err
	})
	if err != nil {
		return err
	}
	none := 0
	for i, err := range errs {
		if errors.Is(err, store.ErrNoCopy) {
			errs[i] = nil // of a release that was cut short, or came twice
			if none++; none == len(errs)-1 {
				return store.ErrNoCopy
			}
		}
	}
	return ofGroups(errs)
}

// cut implements source.
func (n *localSource) cut(
	ctx context.Context, fromNs, toNs int64, rows uint64,
) ([][]int64, error) {
	cuts, err := n.store.Cut(ctx, fromNs, toNs, rows)
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
func (n *Node) cutAll(ctx context.Context, fromNs, toNs int64, rows uint64) ([]int64, error) {
	asked := len(optionsOf(ctx).groups)
	switch {
	case optionsOf(ctx).onlyGroup > 0:
		asked = 1
	case asked == 0:
		asked = len(n.routes.Load().groups)
	}
	share := rows
	if asked > 1 {
		share = max(1, rows/uint64(2*asked))
	}
	a, err := ask(whole(ctx), n, askFacts, &record.Box{}, func(ctx context.Context, s source) (
		[][]int64, wire.End, error,
	) {
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
		if len(out) > store.MaxSlices {
			break
		}
	}
	if len(out) > store.MaxSlices {
		return out // a sync that resumes from there gets the rest
	}
	return append(out, end)
}
