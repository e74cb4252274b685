package wasmhost

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// Module is a compiled, checked plugin. It is safe for concurrent use.
type Module struct {
	entry  *entry
	closed bool // guarded by Host.mu
}

// newModule wraps a reference to an entry, nil for nil.
func newModule(e *entry) *Module {
	if e == nil {
		return nil
	}
	return &Module{entry: e}
}

// Digest returns the SHA-256 of the module as uploaded.
func (m *Module) Digest() [32]byte { return m.entry.digest }

// Name returns the name that the module gives itself in its descriptor.
func (m *Module) Name() string { return m.entry.desc.Name }

// Describe returns the module's descriptor; its slices must not be changed.
func (m *Module) Describe() Descriptor { return m.entry.desc }

// Close unpins the module. Filters and aggregates made from it stay usable.
func (m *Module) Close() error {
	h := m.entry.host
	h.mu.Lock()
	first := !m.closed
	m.closed = true
	h.mu.Unlock()
	if first {
		h.unpin(m.entry)
	}
	return nil
}

// pin takes a reference to the entry of a module that is not closed.
func (m *Module) pin() error {
	h := m.entry.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.entry.refs++
	return nil
}

// NewFilter starts an instance and runs its pentad_init with params.
//
// Errors: *Error, of kind Limit when the module is not a filter; [ErrClosed].
func (m *Module) NewFilter(ctx context.Context, params []byte) (*Filter, error) {
	return m.NewFilterFor(ctx, Owner{}, params)
}

// NewFilterFor is NewFilter for an owner.
func (m *Module) NewFilterFor(ctx context.Context, by Owner, params []byte) (*Filter, error) {
	if m.entry.desc.Kinds&plugin.KindFilter == 0 {
		return nil, m.entry.fail(Limit, "", "the plugin is not a filter")
	}
	f := &Filter{columns: newColumns(&m.entry.desc)}
	err := m.newGuest(ctx, by, params, func(g *guest) {
		f.guest, f.filter = g, g.export(exportFilter)
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// NewAggregate starts an instance and runs its pentad_init with params.
//
// Errors: *Error, of kind Limit when the module is not an aggregate; [ErrClosed].
func (m *Module) NewAggregate(ctx context.Context, params []byte) (*Aggregate, error) {
	return m.NewAggregateFor(ctx, Owner{}, params)
}

// NewAggregateFor is NewAggregate for an owner.
func (m *Module) NewAggregateFor(
	ctx context.Context, by Owner, params []byte,
) (*Aggregate, error) {
	if m.entry.desc.Kinds&plugin.KindAggregate == 0 {
		return nil, m.entry.fail(Limit, "", "the plugin is not an aggregate")
	}
	a := &Aggregate{columns: newColumns(&m.entry.desc)}
	err := m.newGuest(ctx, by, params, func(g *guest) {
		a.guest, a.states, a.add = g, newStates(g), g.export(exportAdd)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// newGuest makes an initialised instance and hands it over.
func (m *Module) newGuest(
	ctx context.Context, by Owner, params []byte, take func(*guest),
) error {
	e := m.entry
	if uint64(len(params)) > uint64(e.desc.ParamsMax) {
		return e.fail(Limit, exportInit, fmt.Sprintf("%d bytes of parameters, the plugin "+
			"takes at most %d", len(params), e.desc.ParamsMax))
	}
	if err := m.pin(); err != nil {
		return err
	}
	defer e.host.unpin(e)
	held, err := e.host.enter(ctx, by.Key)
	if err != nil {
		return err
	}
	defer e.host.leave(held)
	g, err := e.obtain(ctx, by, held)
	if err != nil {
		return err
	}
	if err := g.initialise(params); err != nil {
		g.drop()
		return err
	}
	g.permit.owner, g.poolOwner, g.startPermit = by.Key, by.Pool, nil
	take(g)
	return nil
}

// fail returns an error of a call that was not made.
func (e *entry) fail(kind ErrorKind, export, reason string) *Error {
	return &Error{Plugin: e.desc.Name, Digest: e.digest, Export: export, Kind: kind, Reason: reason}
}
