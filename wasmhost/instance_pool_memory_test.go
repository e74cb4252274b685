package wasmhost

import (
	"context"
	"errors"
	"testing"
)

// A stack that has grown is left behind, however it grew, and another one stays.
func TestPooledAndStacks(t *testing.T) {
	// calls is a function of the plugin's own, which init calls.
	calls := func(depth int32) func(*asm) {
		return func(a *asm) {
			own := uint32(len(a.funcs))
			a.funcs = append(a.funcs, asmFunc{params: i32,
				code: cat(get(0), when(sub(get(0), i32c(1)), call(own)))})
			a.replace(exportInit, "", cat(i32c(depth), call(own), i32c(0)))
		}
	}
	// wide has thousands of results of calls at once.
	wide := func(a *asm) {
		const describe = 1
		var c code
		for range 4000 {
			c = cat(c, call(describe))
		}
		for range 3999 {
			c = cat(c, ops(opI32Add))
		}
		a.replace(exportInit, "", cat(c, ops(i32Eqz)))
	}
	for _, c := range []struct {
		name   string
		change func(*asm)
		stays  bool
	}{{"no calls", func(*asm) {}, true}, {"few", calls(3), true}, {"many", calls(1500), false},
		{"a large frame", wide, false}} {
		h := newTestHost(t, Options{})
		m := mustLoad(t, h, good(c.change))
		defer m.Close()
		for _, reset := range []bool{false, true} {
			a, err := m.NewAggregate(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			before := cap(*a.guest.stack)
			a.Close()
			if len(h.instances.list) != 1 || (h.instances.list[0].trampoline != nil) != c.stays {
				t.Errorf("%s, reset %v: a stack of %d bytes stays: %v", c.name, reset, before,
					!c.stays)
			}
		}
	}
}

// An instance has pages of 2 MiB only if it is as large.
func TestPooledAndMemory(t *testing.T) {
	h := newTestHost(t, Options{GoProfile: true})
	for pages, want := range map[uint32]int64{1: 1 << 16, 15: 15 << 16, 16: 2 << 20, 33: 4 << 20} {
		a := newOf(t, h, asGo(func(a *asm) { a.memoryMin = pages }))
		if got := h.budget.used.Load(); got != want {
			t.Errorf("an instance of %d pages counts %d bytes, want %d", pages, got, want)
		}
		a.Close()
	}
}

// A pooled instance has no part of what all have together until it is used again.
func TestPooledAndTotalBytes(t *testing.T) {
	h := newTestHost(t, Options{GoProfile: true, TotalBytes: 2 << 16})
	m := mustLoad(t, h, asGo(nil))
	plain := mustLoad(t, h, good(nil))
	defer plain.Close()
	defer m.Close()
	ask(t, h, m, 1)
	var open []*Aggregate
	for range 2 {
		a, err := plain.NewAggregate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, a)
	}
	var e *Error
	_, err := m.NewAggregateFor(t.Context(), OwnerOf(1), nil)
	if !errors.As(err, &e) || e.Kind != Busy {
		t.Errorf("beside what has all memory: %v", err)
	}
	for _, a := range open {
		a.Close()
	}
	ask(t, h, m, 1)
	if reset, _ := ask(t, h, m, 1); !reset {
		t.Error("no pooled instance")
	}
}

// A host may close while owners take and give back pooled instances.
func TestPooledAndClose(t *testing.T) {
	h, err := New(t.Context(), Options{GoProfile: true})
	if err != nil {
		t.Fatal(err)
	}
	m := mustLoad(t, h, asGo(littering))
	done := make(chan error)
	for owner := range uint64(4) {
		go func() {
			ctx := context.Background()
			for {
				a, err := m.NewAggregateFor(ctx, OwnerOf(owner/2), nil)
				if err != nil {
					done <- err
					return
				}
				err = a.Add(ctx, values(1), nil, 1)
				if err = errors.Join(err, a.Close()); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for i := 0; h.Stats().InstancesReset < 10; i++ {
		a, err := m.NewAggregate(t.Context(), nil)
		if err != nil || i == 10_000 {
			t.Fatalf("instances are not used again, or %v", err)
		}
		a.Close()
	}
	newOf(t, h, asGo(nil)).Close() // so that there is pooled when the host closes
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for range 4 {
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if s := h.Stats(); s.MemoryBytes != 0 || len(h.instances.list) > 0 ||
		h.budget.used.Load() != 0 {
		t.Errorf("%d bytes mapped, %d pooled instances, %d bytes used", s.MemoryBytes,
			len(h.instances.list), h.budget.used.Load())
	}
}
