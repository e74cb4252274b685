package wasmhost

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

// stretches are what a guest uses of fuel between two times that it comes back to the host.
type stretches struct {
	g       *guest
	left    int64
	slices  int
	longest int64
	then    func() error // what follows, nil for what the guest does
}

// watch notes the stretches of the next call, which has a budget.
func watch(g *guest, budget int64, then func() error) *stretches {
	s := &stretches{g: g, left: budget, then: then}
	between := g.meter.between
	g.meter.between = func() error {
		s.note()
		s.slices++
		if s.then != nil {
			return s.then()
		}
		return between()
	}
	return s
}

func (s *stretches) note() {
	left := s.g.meter.left()
	s.longest, s.left = max(s.longest, s.left-left), left
}

// hostile are bodies of pentad_add that never end, in as many ways as there are to use time.
func hostile() map[string]func(*asm) {
	add := func(c code) func(*asm) {
		return func(a *asm) { a.replace(exportAdd, i32+i32, cat(c, ops(opUnreachable))) }
	}
	fill := cat(i32c(0), i32c(0), i32c(1<<15), ops(opPrefixMisc, miscMemoryFill, 0))
	return map[string]func(*asm){
		"loop":            add(loop(br(0))),
		"loop in a loop":  add(loop(loop(get(2), brIf(0), inc(2, 1), br(1)))),
		"loads":           add(loop(get(2), bytes.Repeat(load(0), 1000), set(2), br(0))),
		"fill":            add(loop(fill, br(0))),
		"memory.grow":     add(loop(i32c(1), ops(opMemoryGrow, 0, dropOp), br(0))),
		"calls":           calls,
		"loops in a call": func(a *asm) { calls(a); a.funcs[len(a.funcs)-60].code = shortLoop },
	}
}

// shortLoop has ten rounds.
var shortLoop = cat(i32c(10), set(0), loop(inc(0, -1), get(0), brIf(0)))

// calls is a tree of 2^60 of them.
func calls(a *asm) {
	first := uint32(len(a.imports))
	a.funcs = append(a.funcs, asmFunc{locals: i32})
	for range 60 {
		below := call(first + uint32(len(a.funcs)) - 1)
		a.funcs = append(a.funcs, asmFunc{locals: i32, code: cat(below, below)})
	}
	a.replace(exportAdd, "", cat(call(first+uint32(len(a.funcs))-1), i32c(0)))
}

// TestSlices has endless calls, of plugins and of programs that import what Go does: each comes
// back to the host when it has used a slice of fuel, and ends when it has used all.
func TestSlices(t *testing.T) {
	h := newTestHost(t, Options{GoProfile: true})
	for name, change := range hostile() {
		for _, imports := range [][]importFunc{nil, {{wasiModule, "sched_yield", 1}}} {
			wasm := good(func(a *asm) {
				a.imports = imports
				change(a)
			})
			m := mustLoad(t, h, wasm)
			a, err := m.NewAggregate(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			g := a.guest
			budget := 2_500_000 * g.scale
			s := watch(g, budget, nil)
			f := g.export(exportAdd)
			if err := g.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err = g.call(&f, budget, 0, 0)
			s.note()
			var e *Error
			if !errors.As(err, &e) || e.Kind != Fuel {
				t.Errorf("%s: ended with %v", name, err)
			}
			// What is charged at once: a thousand loads, a page to grow by, 32 KiB to fill.
			if s.longest > sliceFuel+growPrice || s.slices < int(budget/(sliceFuel+growPrice)) {
				t.Errorf("%s, imports %v: %d slices of a budget of %d, the longest stretch has %d",
					name, imports, s.slices, budget, s.longest)
			}
			_ = g.leave(err)
			m.Close()
		}
	}
}

// A call is stopped between two slices when its query ends.
func TestStopped(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(func(a *asm) { a.replace(exportAdd, "", spin) }))
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	a, err := m.NewAggregate(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	s := watch(a.guest, 0, nil)
	between := a.guest.meter.between
	a.guest.meter.between = func() error {
		cancel()
		return between()
	}
	if err := a.Add(ctx, values(1, 2), nil, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if s.slices != 1 || h.Stats().Failures != [9]uint64{} {
		t.Errorf("%d slices, failures %v", s.slices, h.Stats().Failures)
	}
}

// A call that has used up a time slice lets others have the permit between two slices, also while
// an instance is made.
func TestPermitBetweenSlices(t *testing.T) {
	h, g := enteredGuest(t, t.Context())
	had := false // guarded by the permit
	otherWaits(t, h, g, false, func() { had = true })
	s := watch(g, 0, nil)
	g.allocF.number = exportNumber(exportMerge) // without any states: it walks all the memory
	_, err := g.call(&g.allocF, 3*sliceFuel, 0, 0, 1<<20)
	if !had || s.slices == 0 {
		t.Errorf("%v after %d slices, the other had the permit: %v", err, s.slices, had)
	}
	if err := g.leave(err); err == nil || h.permits.free != 1 {
		t.Errorf("%v, %d permits are free", err, h.permits.free)
	}

	held, err := h.enter(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	had = false
	otherWaits(t, h, &guest{}, false, func() { had = true })
	held.since = held.since.Add(-timeSlice)
	if err := held.pause(t.Context(), h); err != nil || !had {
		t.Errorf("%v, the other had the permit: %v", err, had)
	}
	// The other keeps it, and the query ends.
	ctx, cancel := context.WithCancel(t.Context())
	otherWaits(t, h, &guest{}, true, cancel)
	held.since = held.since.Add(-timeSlice)
	if err := held.pause(ctx, h); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	h.leave(held)
	if h.permits.free != 0 {
		t.Errorf("%d permits are free", h.permits.free)
	}
	h.permits.release(1, 0, time.Now())
}

// A slow call leaves the last permit to what works without guests, also between two slices, and has
// it back when another one is free.
func TestSlowCallLeavesTheLastPermit(t *testing.T) {
	h := newTestHost(t, Options{MaxCalls: 2})
	m := mustLoad(t, h, good(nil))
	defer m.Close()
	a, err := m.NewAggregateFor(t.Context(), OwnerOf(7), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	g := a.guest
	if err := g.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.permits.acquire(t.Context(), 1, time.Now()); err != nil {
		t.Fatal(err)
	}
	h.permits.nativeWork.Begin()
	defer h.permits.nativeWork.End()
	g.timed, g.since = true, time.Now().Add(-timeSlice)
	paused := make(chan error)
	go func() { paused <- g.pause(t.Context()) }()
	for h.permits.waiting.Load() == 0 {
		select {
		case err := <-paused:
			t.Fatalf("it kept the last permit, %v", err)
		default:
			runtime.Gosched()
		}
	}
	h.permits.release(1, 0, time.Now())
	if err := <-paused; err != nil {
		t.Error(err)
	}
	if err := g.leave(nil); err != nil || h.permits.free != 2 {
		t.Errorf("%v, %d permits are free", err, h.permits.free)
	}
}

// Jumps out of loops and on in outer ones mean what they meant, as do loops with parameters.
func TestRewrittenJumps(t *testing.T) {
	const n, i, j, sum, steps = 0, 1, 2, 3, 4
	note := func(weight int32) code {
		return cat(add(mul(get(sum), i32c(31)), i32c(weight)), set(sum))
	}
	lower := func(local uint32) code { return cat(inc(local, -1), get(local)) }
	table := func(labels ...byte) code {
		return append(code{opBrTable, byte(len(labels) - 1)}, labels...)
	}
	nested := cat(
		get(n), set(i), mul(get(n), i32c(9)), set(steps),
		block(loop( // labels of what is inside, outside in: block, outer, inner
			cat(get(n), set(j)),
			loop(
				note(1), lower(steps), ops(i32Eqz), brIf(2),
				get(j), i32c(1), ops(i32And),
				when(note(2), inc(j, -1), get(steps), i32c(7), ops(i32And),
					table(2, 1, 0, 0, 0, 0, 3)),
				lower(j), brIf(0),
				lower(i), brIf(1),
				get(sum), i32c(5), ops(i32And), ops(i32Eqz), brIf(2),
			),
			note(3), lower(i), brIf(0),
		)),
		get(sum))
	// The counter of the second stays on the stack, as a parameter of the loop: type 2 of the
	// module.
	carried := cat(get(n), ops(opLoop, 2), i32c(-1), ops(opI32Add, opLocalTee, i), note(7),
		get(i),
		brIf(0), ops(opEnd), get(sum), ops(opI32Add))
	a := &asm{memoryMin: 1, funcs: []asmFunc{
		{export: "nested", params: i32, results: i32, locals: i32 + i32 + i32 + i32, code: nested},
		{export: "carried", params: i32, results: i32, locals: i32 + i32 + i32, code: carried},
		{params: i32, results: i32, code: get(0)}}}
	w := newTwin(t, newRuntime(t), a.bytes())
	defer w.close(t.Context())
	for _, name := range []string{"nested", "carried"} {
		seen := map[uint64]bool{}
		for n := range uint64(20) {
			got, err := w.call(t, name, n+1)
			if err != nil {
				t.Fatal(name, n+1, err)
			}
			seen[got[0]] = true
		}
		if len(seen) < 8 || *w.granted < 1000 {
			t.Errorf("%s has %d results, %d of fuel was asked for", name, len(seen), *w.granted)
		}
	}
}
