package wasmhost

import (
	"context"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxPartialStateBytes is the largest state that can be partial: merging a larger one is not
	// cheap compared with adding the rows of a block.
	maxPartialStateBytes = 1 << 10
	maxPartials          = 256 // of an instance
)

// partialStates are states of an aggregate that belong to no group: each covers some rows only,
// e.g. a fragment of a block, so that it can be cached.
type partialStates struct {
	region      uint32 // 0 before they are allocated
	initialized bool   // states without rows are as state_init made them
}

// MaxPartials returns how many partial states an instance can have. It is 0 for a plugin whose
// states own heap memory, link predecessors or are large.
func (d *Descriptor) MaxPartials() int {
	const no = plugin.FlagGrows | plugin.FlagLinksPredecessors
	if d.Kinds&plugin.KindAggregate == 0 || d.Flags&no != 0 || d.StateSize > maxPartialStateBytes {
		return 0
	}
	return min(maxPartials, perSlice(int(d.StateSize)))
}

// MaxPartials returns how many partial states the instance can have.
func (a *Aggregate) MaxPartials() int { return a.guest.entry.desc.MaxPartials() }

// StateSize returns the size of a state.
func (a *Aggregate) StateSize() int { return a.states.size }

// AddPartial folds all rows of b into a partial state, an index below MaxPartials. If a state
// depends on how rows are cut into batches, it depends on b only, because b is always cut the same
// way.
//
// Errors: as Add.
func (a *Aggregate) AddPartial(ctx context.Context, b *record.Batch, i int) error {
	if err := b.CheckShape(); err != nil {
		return fmt.Errorf("plugin aggregate: %w", err)
	}
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.addPartial(ctx, b, i))
}

func (a *Aggregate) addPartial(ctx context.Context, b *record.Batch, i int) error {
	if err := a.initPartials(); err != nil {
		return err
	}
	return a.addAll(ctx, b, new(rowGroups), 1, a.partialAt(i))
}

func (a *Aggregate) partialAt(i int) uint32 {
	return a.partials.region + uint32(i*a.states.size)
}

// initPartials initializes the partial states, unless they are initialized.
func (a *Aggregate) initPartials() error {
	if a.partials.initialized {
		return nil
	}
	if err := a.allocPartials(); err != nil {
		return err
	}
	s, n := &a.states, a.MaxPartials()
	_, err := a.guest.call(&s.init, budgetFor(a.guest, n*s.size), uint64(a.partials.region),
		uint64(n))
	a.partials.initialized = err == nil
	return err
}

func (a *Aggregate) allocPartials() (err error) {
	if a.partials.region == 0 {
		a.partials.region, err = a.guest.alloc(uint32(a.MaxPartials() * a.states.size))
	}
	return err
}

// OrderIndependent reports whether a state is the same however rows are cut into batches and states
// are merged.
func (a *Aggregate) OrderIndependent() bool {
	return a.guest.entry.desc.Flags&(plugin.FlagMergeOrdered|plugin.FlagDependsOnBatches) == 0
}

// StateCopy copies a partial state out of the guest, or with Load into it.
type StateCopy struct {
	Index int
	Load  bool
}

// GatherPartials merges the first n partial states, n > 0, into one, copies it to out, and frees
// them. Before that it makes the copies, whose states are concatenated in states. The order of
// merging depends on n only.
//
// Errors: as Add.
func (a *Aggregate) GatherPartials(
	ctx context.Context, n int, copies []StateCopy, states, out []byte,
) error {
	size := a.states.size
	outside := func(c StateCopy) bool { return uint(c.Index) >= uint(n) }
	if n < 1 || n > a.MaxPartials() || len(states) != len(copies)*size || len(out) != size ||
		slices.ContainsFunc(copies, outside) {
		return fmt.Errorf("plugin aggregate: %d bytes of states, %d copies of %d of %d partial "+
			"states, into %d bytes", len(states), len(copies), n, a.MaxPartials(), len(out))
	}
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.gatherPartials(ctx, n, copies, states, out))
}

func (a *Aggregate) gatherPartials(
	ctx context.Context, n int, copies []StateCopy, states, out []byte,
) error {
	saves := slices.ContainsFunc(copies, func(c StateCopy) bool { return !c.Load })
	if saves || len(copies) < n {
		if err := a.initPartials(); err != nil {
			return err
		}
	}
	there, err := a.viewPartials(n)
	if err != nil {
		return err
	}
	size := a.states.size
	for i, c := range copies {
		if mine, its := states[i*size:][:size], there[c.Index*size:][:size]; c.Load {
			copy(its, mine)
		} else {
			copy(mine, its)
		}
	}
	a.partials.initialized = false
	if err := a.reducePartials(ctx, n); err != nil {
		return err
	}
	if there, err = a.viewPartials(1); err == nil {
		copy(out, there)
	}
	return err
}

// viewPartials returns the memory of the first n partial states.
func (a *Aggregate) viewPartials(n int) ([]byte, error) {
	if err := a.allocPartials(); err != nil {
		return nil, err
	}
	return a.guest.view(exportAlloc, a.partials.region, uint32(n*a.states.size))
}

// MergePartials merges states that GatherPartials returned, concatenated, into a group. The order
// depends on their number only. Partial states that were not gathered are lost.
//
// Errors: as Add.
func (a *Aggregate) MergePartials(
	ctx context.Context, states []byte, group, groups int,
) error {
	if len(states)%a.states.size != 0 || a.MaxPartials() == 0 || group >= groups {
		return fmt.Errorf("plugin aggregate: %d bytes of partial states, %d at most, for group "+
			"%d of %d", len(states), a.MaxPartials(), group, groups)
	}
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.mergePartials(ctx, states, group, groups))
}

func (a *Aggregate) mergePartials(
	ctx context.Context, states []byte, group, groups int,
) error {
	if err := a.states.grow(ctx, a.guest, groups); err != nil {
		return err
	}
	a.partials.initialized = false
	for batch := range slices.Chunk(states, a.MaxPartials()*a.states.size) {
		n := len(batch) / a.states.size
		there, err := a.viewPartials(n)
		if err != nil {
			return err
		}
		copy(there, batch)
		if err := a.reducePartials(ctx, n); err != nil {
			return err
		}
		if err := a.callMerge(ctx, a.states.at(group), a.partialAt(0), 1); err != nil {
			return err
		}
	}
	return nil
}

// reducePartials merges the first n partial states into the first: the upper half into the lower
// one until one is left; one by one where the order of merging matters.
func (a *Aggregate) reducePartials(ctx context.Context, n int) error {
	if a.guest.entry.desc.Flags&plugin.FlagMergeOrdered != 0 {
		for i := 1; i < n; i++ {
			if err := a.callMerge(ctx, a.partialAt(0), a.partialAt(i), 1); err != nil {
				return err
			}
		}
		return nil
	}
	for n > 1 {
		half := (n + 1) / 2
		if err := a.callMerge(ctx, a.partialAt(0), a.partialAt(half), n-half); err != nil {
			return err
		}
		n = half
	}
	return nil
}

// callMerge merges n states with one guest call.
func (a *Aggregate) callMerge(ctx context.Context, into, from uint32, n int) error {
	g, s := a.guest, &a.states
	if err := g.pause(ctx); err != nil {
		return err
	}
	return g.checkZero(&s.mergeF, budgetFor(g, n*s.size), uint64(into), uint64(from), uint64(n))
}
