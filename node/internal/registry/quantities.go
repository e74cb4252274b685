package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Quantities returns the declared quantities, by moid.
func (r *Registry) Quantities() []plugin.Quantity {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state.Sorted()
}

// SetQuantity declares the quantity of a moid, in place of an earlier declaration. Records stay as
// they are. A name is that of one quantity: of two that get it at the same time on different nodes
// of a cluster one is refused, or both.
//
// Errors: a *wire.Error of kind conflict if another quantity has the name.
func (r *Registry) SetQuantity(ctx context.Context, q plugin.Quantity) error {
	if err := cmp.Or(q.Check(), q.CheckName(), registry.CheckQuantityName(q.Name),
		q.CheckFields()); err != nil {
		return &wire.Error{Kind: wire.KindInvalid, Part: "quantity", Message: err.Error()}
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	if r.cluster != nil {
		if err := r.refresh(ctx); err != nil {
			return err
		}
	}
	if err := r.nameTaken(&q); err != nil {
		return err
	}
	before, had := r.clusterState().Quantities[q.MOID]
	if err := r.change(ctx, &catalog.Change{Quantity: &q}, nil); err != nil {
		return err
	}
	// Of two nodes that change the catalogue at the same time at least the second sees both.
	taken := r.nameTaken(&q)
	if taken == nil || r.clusterState().Quantities[q.MOID].Name != q.Name {
		return taken
	}
	undo := &catalog.Change{Forget: &q.MOID}
	if had {
		undo = &catalog.Change{Quantity: &before}
	}
	return cmp.Or(r.change(ctx, undo, nil), taken)
}

// nameTaken is the error of a quantity whose name another one has.
func (r *Registry) nameTaken(q *plugin.Quantity) error {
	for _, other := range r.Quantities() {
		if other.Name == q.Name && other.MOID != q.MOID {
			return &wire.Error{Kind: wire.KindConflict, Message: fmt.Sprintf("quantity %d has "+
				"the name %q; give %d another one", other.MOID, q.Name, q.MOID)}
		}
	}
	return nil
}

// ForgetQuantity removes the declaration of a moid.
func (r *Registry) ForgetQuantity(ctx context.Context, moid int32) error {
	err := r.forgetQuantity(ctx, moid)
	if errors.Is(err, catalog.ErrUnknown) || isUnknown(err) {
		return &wire.Error{Kind: wire.KindNotFound, Message: message(err)}
	}
	return err
}

func (r *Registry) forgetQuantity(ctx context.Context, moid int32) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	change := &catalog.Change{Forget: &moid}
	if r.cluster == nil {
		return r.change(ctx, change, nil)
	}
	if err := r.refresh(ctx); err != nil {
		return err
	}
	known := r.clusterState()
	if err := known.Check(change); err != nil {
		return err
	}
	return r.change(ctx, change, nil)
}
