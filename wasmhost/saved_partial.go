package wasmhost

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// SavesPartials reports whether states of some rows only can be saved and merged later, in any
// order: those of a plugin whose states own heap memory, and do not depend on other rows.
func (d *Descriptor) SavesPartials() bool {
	const needsOthers = plugin.FlagLinksPredecessors | plugin.FlagMergeOrdered |
		plugin.FlagDependsOnBatches
	return d.Kinds&plugin.KindAggregate != 0 && d.Flags&plugin.FlagGrows != 0 &&
		d.Flags&needsOthers == 0
}

// SavesPartials is that of the plugin.
func (a *Aggregate) SavesPartials() bool { return a.guest.entry.desc.SavesPartials() }

// AddToPartial folds all rows of b into a state that belongs to no group, for SavePartial.
//
// Errors: as Add.
func (a *Aggregate) AddToPartial(ctx context.Context, b *record.Batch) error {
	if err := b.CheckShape(); err != nil {
		return fmt.Errorf("plugin aggregate: %w", err)
	}
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.addToPartial(ctx, b))
}

func (a *Aggregate) addToPartial(ctx context.Context, b *record.Batch) error {
	if err := a.beginPartial(); err != nil {
		return err
	}
	return a.addAll(ctx, b, new(rowGroups), 1, a.partials.region)
}

// beginPartial makes the state that belongs to no group, unless it is there.
func (a *Aggregate) beginPartial() (err error) {
	p, s := &a.partials, &a.states
	if p.region == 0 {
		if p.region, err = a.guest.alloc(uint32(s.size)); err != nil {
			return err
		}
	}
	if p.initialized {
		return nil
	}
	budget := budgetFor(a.guest, s.size) + a.guest.scaled(fuelPerNew)
	if _, err := a.guest.call(&s.init, budget, uint64(p.region), 1); err != nil {
		return err
	}
	p.initialized = true
	return nil
}

// Join returns saved states, as States or SavePartial returned them, merged into one, in the form
// that Merge takes. The state of AddToPartial must have been saved.
//
// Errors: as Merge.
func (a *Aggregate) Join(ctx context.Context, states []byte) ([]byte, error) {
	if err := a.guest.enter(ctx); err != nil {
		return nil, err
	}
	saved, err := a.join(ctx, states)
	return saved, a.guest.leave(err)
}

func (a *Aggregate) join(ctx context.Context, states []byte) ([]byte, error) {
	saved, err := parseSaved(states)
	if err != nil {
		return nil, a.guest.fail(Limit, exportLoad, err.Error())
	}
	if err := a.beginPartial(); err != nil {
		return nil, err
	}
	for _, bytes := range saved {
		if err := a.guest.pause(ctx); err != nil {
			return nil, err
		}
		if err := a.states.loadAt(a.guest, bytes, a.partials.region); err != nil {
			return nil, err
		}
	}
	return a.savePartial()
}

// SavePartial returns the state of the rows since the last call, in the form that Merge takes. What
// it owned stays in the memory of the instance, see MemoryBytes.
//
// Errors: as Add.
func (a *Aggregate) SavePartial(ctx context.Context) ([]byte, error) {
	if err := a.guest.enter(ctx); err != nil {
		return nil, err
	}
	saved, err := a.savePartial()
	return saved, a.guest.leave(err)
}

func (a *Aggregate) savePartial() ([]byte, error) {
	if !a.partials.initialized {
		return nil, a.guest.fail(Limit, exportSave, "there are no rows to save the state of")
	}
	a.partials.initialized = false
	if err := a.states.reserve(a.guest, maxSavedSize); err != nil {
		return nil, err
	}
	saved, err := a.states.saveAt(a.guest, a.partials.region)
	if err != nil {
		return nil, err
	}
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, savedPrefix+len(saved)),
		uint32(len(saved)))
	return append(out, saved...), nil
}
