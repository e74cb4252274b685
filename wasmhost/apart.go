package wasmhost

import (
	"context"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxApartState is up to how many bytes a state may have to be one of many: merging a larger
	// one shows beside adding the rows of a block.
	maxApartState = 1 << 10
	maxApart      = 256 // states apart at a time
)

// apart are states of an aggregate that belong to no group yet: each takes some rows apart from all
// others, so that what comes of them can be kept.
type apart struct {
	region uint32 // 0 before there are any
	fresh  bool   // those that nobody added to are as state_init made them
}

// Apart returns how many states there can be apart from groups, 0 for a plugin whose states do not
// lend themselves to it: they grow, or are large.
func (d *Descriptor) Apart() int {
	if d.Kinds&plugin.KindAggregate == 0 || d.Flags&(plugin.FlagGrows|plugin.FlagJoins) != 0 ||
		d.StateSize > maxApartState {
		return 0
	}
	return min(maxApart, perSlice(int(d.StateSize)))
}

// Apart is that of the plugin's descriptor.
func (a *Aggregate) Apart() int { return a.guest.entry.desc.Apart() }

// StateSize returns the size of a state.
func (a *Aggregate) StateSize() int { return a.states.size }

// AddApart folds all rows of b into the state at a place below Apart. Where a state depends on how
// rows are cut, it follows from b alone, for then they always are in the same way.
//
// Errors: as Add.
func (a *Aggregate) AddApart(ctx context.Context, b *record.Batch, place int) error {
	if err := b.CheckShape(); err != nil {
		return fmt.Errorf("plugin aggregate: %w", err)
	}
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.addApart(ctx, b, place))
}

func (a *Aggregate) addApart(ctx context.Context, b *record.Batch, place int) error {
	if err := a.freshen(); err != nil {
		return err
	}
	return a.addAll(ctx, b, nil, 1, a.placeOf(place))
}

func (a *Aggregate) placeOf(place int) uint32 {
	return a.apart.region + uint32(place*a.states.size)
}

// freshen makes the states apart, unless they are.
func (a *Aggregate) freshen() error {
	if a.apart.fresh {
		return nil
	}
	if err := a.reserveApart(); err != nil {
		return err
	}
	s, n := &a.states, a.Apart()
	_, err := a.guest.call(&s.init, budgetFor(a.guest, n*s.size), uint64(a.apart.region),
		uint64(n))
	a.apart.fresh = err == nil
	return err
}

func (a *Aggregate) reserveApart() (err error) {
	if a.apart.region == 0 {
		a.apart.region, err = a.guest.alloc(uint32(a.Apart() * a.states.size))
	}
	return err
}

// Exact reports whether a state comes out the same however rows are cut, and states merged.
func (a *Aggregate) Exact() bool {
	return a.guest.entry.desc.Flags&(plugin.FlagMergeOrdered|plugin.FlagDependsOnBatches) == 0
}

// Copy is of a state apart: from a place, or to it.
type Copy struct {
	Place int
	To    bool
}

// Gather merges the states at the first places, of which there is one at least, into one state, of
// which it makes a copy in out, and makes all places free again. Before that it makes copies, of
// which the states are side by side. The order in which states are merged depends on their number
// alone.
//
// Errors: as Add.
func (a *Aggregate) Gather(
	ctx context.Context, places int, copies []Copy, states, out []byte,
) error {
	size := a.states.size
	if places < 1 || places > a.Apart() || len(states) != len(copies)*size || len(out) != size ||
		slices.ContainsFunc(copies, func(c Copy) bool { return uint(c.Place) >= uint(places) }) {
		return fmt.Errorf("plugin aggregate: %d bytes of states, %d copies of %d places of %d, "+
			"into %d bytes", len(states), len(copies), places, a.Apart(), len(out))
	}
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.gather(ctx, places, copies, states, out))
}

func (a *Aggregate) gather(
	ctx context.Context, places int, copies []Copy, states, out []byte,
) error {
	if slices.ContainsFunc(copies, func(c Copy) bool { return !c.To }) || len(copies) < places {
		if err := a.freshen(); err != nil {
			return err
		}
	}
	there, err := a.viewApart(places)
	if err != nil {
		return err
	}
	size := a.states.size
	for i, c := range copies {
		if mine, its := states[i*size:][:size], there[c.Place*size:][:size]; c.To {
			copy(its, mine)
		} else {
			copy(mine, its)
		}
	}
	a.apart.fresh = false
	if err := a.mergeApart(ctx, places); err != nil {
		return err
	}
	if there, err = a.viewApart(1); err == nil {
		copy(out, there)
	}
	return err
}

// viewApart returns the memory of states apart.
func (a *Aggregate) viewApart(places int) ([]byte, error) {
	if err := a.reserveApart(); err != nil {
		return nil, err
	}
	return a.guest.view(exportAlloc, a.apart.region, uint32(places*a.states.size))
}

// MergeApart merges states that Gather returned, side by side, into a group. The order depends on
// their number alone. What was added apart and not gathered is lost.
//
// Errors: as Add.
func (a *Aggregate) MergeApart(
	ctx context.Context, states []byte, group, groups int,
) error {
	if len(states)%a.states.size != 0 || a.Apart() == 0 || group >= groups {
		return fmt.Errorf("plugin aggregate: %d bytes of states apart, %d places, for group %d "+
			"of %d", len(states), a.Apart(), group, groups)
	}
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.mergeAll(ctx, states, group, groups))
}

func (a *Aggregate) mergeAll(
	ctx context.Context, states []byte, group, groups int,
) error {
	if err := a.states.grow(ctx, a.guest, groups); err != nil {
		return err
	}
	a.apart.fresh = false
	for piece := range slices.Chunk(states, a.Apart()*a.states.size) {
		places := len(piece) / a.states.size
		there, err := a.viewApart(places)
		if err != nil {
			return err
		}
		copy(there, piece)
		if err := a.mergeApart(ctx, places); err != nil {
			return err
		}
		if err := a.mergeOne(ctx, a.states.at(group), a.placeOf(0), 1); err != nil {
			return err
		}
	}
	return nil
}

// mergeApart merges n states apart into the first: the upper half into the lower one until one is
// left; one by one where the order of merging matters.
func (a *Aggregate) mergeApart(ctx context.Context, n int) error {
	if a.guest.entry.desc.Flags&plugin.FlagMergeOrdered != 0 {
		for i := 1; i < n; i++ {
			if err := a.mergeOne(ctx, a.placeOf(0), a.placeOf(i), 1); err != nil {
				return err
			}
		}
		return nil
	}
	for n > 1 {
		half := (n + 1) / 2
		if err := a.mergeOne(ctx, a.placeOf(0), a.placeOf(half), n-half); err != nil {
			return err
		}
		n = half
	}
	return nil
}

// mergeOne is one call for n states.
func (a *Aggregate) mergeOne(ctx context.Context, into, from uint32, n int) error {
	g, s := a.guest, &a.states
	if err := g.pause(ctx); err != nil {
		return err
	}
	return g.checkZero(&s.mergeF, budgetFor(g, n*s.size), uint64(into), uint64(from), uint64(n))
}
