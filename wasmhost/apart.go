package wasmhost

import (
	"context"
	"fmt"

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
	rows   int    // as columns.rows, for rows apart
}

// Apart returns how many states there can be apart from groups, 0 for a plugin whose states do not
// lend themselves to it: they grow, or are large.
func (a *Aggregate) Apart() int {
	d := &a.guest.entry.desc
	if d.Flags&(plugin.FlagGrows|plugin.FlagJoins) != 0 || d.StateSize > maxApartState {
		return 0
	}
	return min(maxApart, a.states.perSlice())
}

// StateSize returns the size of a state.
func (a *Aggregate) StateSize() int { return a.states.size }

// ApartRows returns how many rows of those apart a call of the plugin gets next, at most. Sums of
// floats depend on it.
func (a *Aggregate) ApartRows() int {
	if a.apart.rows == 0 {
		return a.columns.firstRows()
	}
	return a.apart.rows
}

// SetApartRows makes the next rows apart be handed over as if those before had been, for which it
// was what ApartRows returned.
func (a *Aggregate) SetApartRows(rows int) { a.apart.rows = rows }

// AddApart folds all rows of b into the state at a place below Apart.
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
	if err := a.freshen(ctx); err != nil {
		return err
	}
	c := a.columns
	others := c.rows
	c.rows = a.ApartRows()
	defer func() { a.apart.rows, c.rows = c.rows, others }()
	for row := 0; row < b.Len(); {
		if err := a.guest.pause(ctx); err != nil {
			return err
		}
		x := c.cut(b, row)
		if err := a.addCut(ctx, b, &x, nil, 1, a.placeOf(place)); err != nil {
			a.blame(ctx, err, b, &x)
			return err
		}
		c.adaptByRate(a.guest, x.to-x.from)
		row = x.to
	}
	return nil
}

func (a *Aggregate) placeOf(place int) uint32 {
	return a.apart.region + uint32(place*a.states.size)
}

// freshen makes the states apart, unless they are.
func (a *Aggregate) freshen(ctx context.Context) error {
	if a.apart.fresh {
		return nil
	}
	if err := a.reserveApart(ctx); err != nil {
		return err
	}
	s, n := &a.states, a.Apart()
	_, err := a.guest.call(ctx, &s.init, budgetFor(a.guest, n*s.size), uint64(a.apart.region),
		uint64(n))
	a.apart.fresh = err == nil
	return err
}

func (a *Aggregate) reserveApart(ctx context.Context) (err error) {
	if a.apart.region == 0 {
		a.apart.region, err = a.guest.alloc(ctx, uint32(a.Apart()*a.states.size))
	}
	return err
}

// Gather merges the states at the first places into a group, and makes all places free again.
// Those that are known are in states, which gets the others. The order in which they are merged
// depends on their number alone.
//
// Errors: as Add.
func (a *Aggregate) Gather(
	ctx context.Context, states []byte, known []bool, group, groups int,
) error {
	if len(known) > a.Apart() || len(states) != len(known)*a.states.size || group >= groups {
		return fmt.Errorf("plugin aggregate: %d bytes of states at %d places of %d, for group %d "+
			"of %d", len(states), len(known), a.Apart(), group, groups)
	}
	if len(known) == 0 {
		return nil
	}
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.gather(ctx, states, known, group, groups))
}

func (a *Aggregate) gather(
	ctx context.Context, states []byte, known []bool, group, groups int,
) error {
	if err := a.states.grow(ctx, a.guest, groups); err != nil {
		return err
	}
	if err := a.reserveApart(ctx); err != nil {
		return err
	}
	for _, k := range known {
		if k {
			continue
		}
		if err := a.freshen(ctx); err != nil {
			return err
		}
	}
	there, err := a.guest.view(exportAlloc, a.apart.region, uint32(len(states)))
	if err != nil {
		return err
	}
	size := a.states.size
	for i, k := range known {
		if mine, its := states[i*size:(i+1)*size], there[i*size:(i+1)*size]; k {
			copy(its, mine)
		} else {
			copy(mine, its)
		}
	}
	a.apart.fresh = false
	return a.mergeApart(ctx, len(known), group)
}

// mergeApart merges the upper half of n states into the lower one until one is left; one by one
// where the order of merging matters.
func (a *Aggregate) mergeApart(ctx context.Context, n, group int) error {
	g, s := a.guest, &a.states
	merge := func(into, from uint32, n int) error {
		if err := g.pause(ctx); err != nil {
			return err
		}
		return g.checkZero(ctx, &s.mergeF, budgetFor(g, n*s.size), uint64(into), uint64(from),
			uint64(n))
	}
	if g.entry.desc.Flags&plugin.FlagMergeOrdered != 0 {
		for i := range n {
			if err := merge(s.at(group), a.placeOf(i), 1); err != nil {
				return err
			}
		}
		return nil
	}
	for n > 1 {
		half := (n + 1) / 2
		if err := merge(a.placeOf(0), a.placeOf(half), n-half); err != nil {
			return err
		}
		n = half
	}
	return merge(s.at(group), a.placeOf(0), 1)
}

// adaptByRate is adapt for rows apart: one call that was cheap for its rows is enough, so that few
// parts are cut otherwise than the rest.
func (c *columns) adaptByRate(g *guest, rows int) {
	switch used := int64(g.used) / g.scale; {
	case c.fixed:
	case used > fuelHigh:
		c.rows = max(min(minBatchRows, c.maxRows), c.rows/2)
	case rows >= minBatchRows && used*int64(c.maxRows) < fuelHigh*int64(rows):
		c.rows = c.maxRows
	}
}
