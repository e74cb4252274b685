package wasmhost

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
)

// asGo makes a plugin one of the Go profile: it imports what the Go runtime does.
func asGo(change func(*asm)) []byte {
	return good(func(a *asm) {
		// The types of imports are those of pentad_init and pentad_finish.
		a.imports = []importFunc{{wasiModule, "poll_oneoff", 8}, {wasiModule, "random_get", 3},
			{wasiModule, "fd_write", 8}}
		a.funcs = append(a.funcs, asmFunc{export: exportInitialize,
			code: cat(i32c(2064), i32c(8), call(1), ops(dropOp), sleeps, prints)})
		if change != nil {
			change(a)
		}
	})
}

// sleeps moves the clock by what stands at 2072, and prints its eight bytes.
var (
	sleeps = cat(store8(24, i32c(2080), cat(i32c(2072), load8(0))),
		i32c(2080), i32c(2160), i32c(1), i32c(2200), call(0), ops(dropOp))
	prints = cat(store(0, i32c(2208), i32c(2072)), store(4, i32c(2208), i32c(8)),
		i32c(1), i32c(2208), i32c(1), i32c(2216), call(2), ops(dropOp))
)

// littering is a plugin that changes all that it can: with each init a global of each type, its
// memory at two places, of which one is new, the random numbers, the clock and the log.
func littering(a *asm) {
	const counter = 2
	a.globals = append(a.globals,
		cat(ops(typeI32, 1), i32c(7), ops(opEnd)),
		cat(ops(typeF32, 1, opF32Const, 0, 0, 0, 0x40), ops(opEnd)),
		cat(ops(typeF64, 1, opF64Const, 0, 0, 0, 0, 0, 0, 0, 0x40), ops(opEnd)))
	last := cat(ops(opMemorySize, 0), i32c(16), ops(i32Shl), i32c(-4), ops(opI32Add))
	f32Add, f64Add := ops(0x92), ops(0xa0)
	a.replace(exportInit, "", cat(
		add(gget(counter), i32c(1)), gset(counter),
		gget(counter+1), gget(counter+1), f32Add, gset(counter+1),
		gget(counter+2), gget(counter+2), f64Add, gset(counter+2),
		i32c(2048), i32c(8), call(1), ops(dropOp),
		store8(0, i32c(2072), i64c(1234)), sleeps, prints,
		i32c(3), ops(opMemoryGrow, 0, dropOp),
		store(0, last, i32c(-1)),
		store(0, i32c(2056), cat(i32c(2056), load(0), gget(counter), ops(opI32Add))),
		initCode()))
}

func buildGoStats(t testing.TB) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stats.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-o", name,
		"../plugins/stats/go")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	wasm, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// wantAsFresh compares a pooled instance of an owner with one that has just started.
func wantAsFresh(t *testing.T, h *Host, m *Module, owner uint64) {
	t.Helper()
	i, ok := h.instances.take(m.entry, owner)
	if !ok {
		t.Fatal("there is no pooled instance")
	}
	defer i.end()
	fresh, err := m.entry.instantiate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.drop()
	if err := fresh.start(); err != nil {
		t.Fatal(err)
	}
	got, want := *i.image, *fresh.capture()
	got.memory = bytes.TrimRight(i.lease.region[:i.memory.Size()], "\x00")
	got.size, got.depth = uint64(i.memory.Size()), i.depth.Get()
	got.globals = nil
	for _, g := range i.globals {
		got.globals = append(got.globals, g.Get())
	}
	switch {
	case got.size != want.size:
		t.Errorf("a memory of %d bytes, a fresh one has %d", got.size, want.size)
	case !bytes.Equal(got.memory, want.memory):
		t.Errorf("the memory differs from a fresh one")
	case !slices.Equal(got.globals, want.globals) || got.depth != want.depth:
		t.Errorf("globals %x %x, of a fresh one %x %x", got.globals, got.depth, want.globals,
			want.depth)
	case i.wasi == nil:
	case i.wasi.random != fresh.wasi.random || i.wasi.clockNs != fresh.wasi.clockNs ||
		string(i.wasi.log) != string(fresh.wasi.log):
		t.Errorf("clock, random numbers and log are %+v, of a fresh one %+v", i.wasi, fresh.wasi)
	}
	if got.usage != want.usage {
		t.Errorf("usage %+v, of a fresh one %+v", got.usage, want.usage)
	}
	if behind := i.lease.region[i.memory.Size():]; len(bytes.TrimRight(behind, "\x00")) > 0 {
		t.Errorf("what the memory may grow into is not zero")
	}
}

// Whatever an owner did with an instance, the next query finds it as if it had just started.
func TestPooledAreAsFresh(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	h := newTestHost(t, Options{GoProfile: true})
	seed := uint64(20)
	t.Logf("seed %d", seed)
	r := random(seed)
	all := map[string][]byte{"littering": asGo(littering), "littering, plain": good(
		func(a *asm) {
			a.globals = append(a.globals, cat(ops(typeI32, 1), i32c(7), ops(opEnd)))
			a.replace(exportInit, "", cat(add(gget(2), i32c(1)), gset(2),
				store(0, i32c(2056), cat(i32c(2056), load(0), gget(2), ops(opI32Add))), initCode()))
		})}
	if !testing.Short() { // with the race detector, compiling it takes 15 s
		all["stats of Go"] = buildGoStats(t)
	}
	for name, wasm := range all {
		m := mustLoad(t, h, wasm)
		defer m.Close()
		for range 20 {
			a, err := m.NewAggregate(t.Context(), nil)
			if err != nil {
				t.Fatal(name, err)
			}
			for range r.IntN(4) {
				groups := 1 + r.IntN(1+r.IntN(50_000))
				list, gid := make([]int64, r.IntN(3000)), []uint32(nil)
				for j := range list {
					list[j] = r.Int64()
					gid = append(gid, uint32(r.IntN(groups)))
				}
				if err := a.Add(t.Context(), values(list...), gid, groups); err != nil {
					t.Fatal(name, err)
				}
			}
			if r.IntN(2) == 0 {
				if _, err := a.Finish(t.Context()); err != nil {
					t.Fatal(name, err)
				}
			}
			grown := a.guest.memory.Size() > uint32(a.guest.image.size)
			if err := a.Close(); err != nil {
				t.Fatal(name, err)
			}
			wantAsFresh(t, h, m, 0)
			if t.Failed() {
				t.Fatalf("%s, grown: %v", name, grown)
			}
		}
	}
}

// ask runs a query of an owner and reports whether it got an instance that was used before, and
// what it used itself.
func ask(t *testing.T, h *Host, m *Module, owner uint64) (reset bool, used Usage) {
	t.Helper()
	before := h.Stats().InstancesReset
	a, err := m.NewAggregateFor(t.Context(), OwnerOf(owner), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(t.Context(), values(1, 2, 3), nil, 1); err != nil {
		t.Fatal(err)
	}
	results, err := a.Finish(t.Context())
	if err != nil || decodeSum(results[0]) != [2]int64{3, 6} {
		t.Fatalf("result %v, %v", results, err)
	}
	used = a.Usage()
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	again := h.Stats().InstancesReset - before
	if again > 1 {
		t.Fatalf("%d instances", again)
	}
	return again == 1, used
}

func TestPooledBelongToAnOwner(t *testing.T) {
	h := newTestHost(t, Options{GoProfile: true})
	m := mustLoad(t, h, asGo(littering))
	other := mustLoad(t, h, asGo(nil))
	defer other.Close()
	first := map[*Module]Usage{}
	want := func(what string, m *Module, owner uint64, reset bool) {
		t.Helper()
		got, used := ask(t, h, m, owner)
		if got != reset {
			t.Errorf("%s: an instance that was used before: %v", what, got)
		}
		if _, ok := first[m]; !ok {
			first[m] = used
		}
		if used != first[m] {
			t.Errorf("%s: it used %+v, the first one %+v", what, used, first[m])
		}
	}
	want("first", m, 1, false)
	want("second", m, 1, true)
	want("another owner", m, 2, false)
	want("another module", other, 1, false)
	want("third", m, 1, true)
	want("another owner again", m, 2, true)
	want("the key of a query's permits", m, 0, false)
	for query := range uint64(3) {
		a, err := m.NewAggregateFor(t.Context(), Owner{Key: query, Pool: 3}, nil)
		if err != nil || a.Close() != nil {
			t.Fatal(err)
		}
	}
	want("after queries with the same key", m, 3, true)
	if s := h.Stats(); s.Instances != 0 || h.budget.used.Load() != 0 {
		t.Errorf("%d instances, %d bytes are left", s.Instances, h.budget.used.Load())
	}
	m.Close()
	for _, s := range h.instances.list {
		if s.entry == m.entry {
			t.Error("an instance outlives its module")
		}
	}
}

// An owner keeps no more than minPooled instances of a module, and all together no more than
// their share: those go that were not used for longest.
func TestPooledAreBounded(t *testing.T) {
	h := newTestHost(t, Options{GoProfile: true, MaxCalls: 2})
	mostBytes := uint64(h.budget.limit / poolShare)
	eighth := uint32(mostBytes/8 - pooledOverhead)
	m := mustLoad(t, h, asGo(func(a *asm) { a.memoryMin = eighth>>16 - 1 }))
	large := mustLoad(t, h, asGo(func(a *asm) { a.memoryMin = maxImageBytes>>16 + 1 }))
	defer m.Close()
	defer large.Close()
	together := func(m *Module, owner uint64, n int) {
		t.Helper()
		var all []*Aggregate
		for range n {
			a, err := m.NewAggregateFor(t.Context(), OwnerOf(owner), nil)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, a)
		}
		for _, a := range all {
			a.Close()
		}
	}
	count := func(owner uint64) (n int) {
		for _, s := range h.instances.list {
			if s.owner == owner {
				n++
			}
		}
		return n
	}
	for owner := range uint64(3) {
		together(m, owner, minPooled+2)
		if got := count(owner); got != minPooled {
			t.Errorf("owner %d: %d pooled instances", owner, got)
		}
	}
	b := h.instances.bytes
	if b > mostBytes || b < mostBytes*9/10 || count(0) != 0 || count(1) != minPooled {
		t.Errorf("%d bytes, %d and %d instances of the first two", h.instances.bytes, count(0),
			count(1))
	}
	if together(large, 9, 1); count(9) != 0 {
		t.Error("an instance is kept that is larger than an image may be")
	}
}

// wantPooled uses a plugin once and counts what is left of it.
func wantPooled(t *testing.T, h *Host, name string, want int, change func(*asm)) {
	t.Helper()
	m := mustLoad(t, h, asGo(change))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(name, err)
	}
	_ = a.Add(t.Context(), values(1), nil, 1) // some fail
	a.Close()
	if got := len(h.instances.list); got != want {
		t.Errorf("%s: %d pooled instances, want %d", name, got, want)
	}
}

// What no image describes is not used again.
func TestPooledWithoutImage(t *testing.T) {
	h := newTestHost(t, Options{GoProfile: true})
	f := func(name string, spares int, change func(*asm)) {
		t.Helper()
		wantPooled(t, h, name, spares, change)
	}
	withTable := func(c ...byte) func(*asm) {
		return func(a *asm) {
			a.table = 2
			a.funcs = append(a.funcs, asmFunc{code: ops(c...)})
		}
	}
	const null, function = opRefNull, typeFuncref
	passive := func(section byte, content, count []byte, c ...byte) func(*asm) {
		return func(a *asm) {
			withTable(c...)(a)
			a.raw = map[byte][]byte{section: content}
			if count != nil {
				a.raw[secDataCount] = count
				a.data = nil
			}
		}
	}
	elements := cat(code{1, 1, 0}, vector(nil)) // one passive segment of functions, without any
	f("table.init", 0, passive(secElement, elements, nil, opI32Const, 0, opI32Const, 0,
		opI32Const, 0, opPrefixMisc, miscTableInit, 0, 0))
	f("elem.drop", 0, passive(secElement, elements, nil, opPrefixMisc, miscElemDrop, 0))
	data := cat(code{3, 1}, named("x"), code{0}, i32c(descAt), ops(opEnd),
		named(string(descriptor(nil))), code{0}, i32c(nameAt), ops(opEnd), named("sum"))
	f("memory.init", 1, passive(secData, data, []byte{3}, opI32Const, 0, opI32Const, 0,
		opI32Const, 0, opPrefixMisc, miscMemoryInit, 0, 0))
	f("data.drop", 0, passive(secData, data, []byte{3}, opPrefixMisc, miscDataDrop, 0))
	f("ref.func", 0, func(a *asm) {
		withTable(opRefFunc, 3, dropOp)(a)
		a.elements = []uint32{3} // declares that references are made of it
	})
	f("table.set", 0, withTable(opI32Const, 0, null, function, opTableSet, 0))
	f("table.fill", 0, withTable(opI32Const, 0, null, function, opI32Const, 1,
		opPrefixMisc, miscTableFill, 0))
	f("table.copy", 0, withTable(opI32Const, 0, opI32Const, 0, opI32Const, 1,
		opPrefixMisc, miscTableCopy, 0, 0))
	f("a vector in a global", 0, func(a *asm) {
		vector := append(ops(typeV128, 1, opPrefixVector, 12), make([]byte, 16)...)
		a.globals = append(a.globals, append(vector, opEnd))
	})
	f("a constant vector", 1, func(a *asm) {
		vector := append(ops(typeV128, 0, opPrefixVector, 12), make([]byte, 16)...)
		a.globals = append(a.globals, append(vector, opEnd))
	})
	f("a reference in a global", 0, func(a *asm) {
		a.globals = append(a.globals, ops(typeFuncref, 1, opRefNull, typeFuncref, opEnd))
	})
}

// What fails is not used again, nor what is not as it should be.
func TestPooledThatFail(t *testing.T) {
	h := newTestHost(t, Options{GoProfile: true})
	wantPooled(t, h, "good", 1, nil)
	for name, trap := range map[string]code{
		"trap": ops(opUnreachable), "status": i32c(-1), "endless": spin,
	} {
		wantPooled(t, h, name, 0, func(a *asm) { a.replace(exportAdd, "", trap) })
	}
	a := newOf(t, h, asGo(nil))
	a.guest.depth.Set(a.guest.depth.Get() - 1)
	if a.Close(); len(h.instances.list) > 0 {
		t.Error("an instance is kept that is in the middle of a call")
	}
	h.budget.limit = 2 << 16
	a = newOf(t, h, asGo(func(a *asm) { // it cannot have as much as it asks for, and goes on
		a.funcs[len(a.funcs)-1].code = cat(i32c(9), ops(opMemoryGrow, 0, dropOp))
	}))
	if a.Close(); len(h.instances.list) > 0 {
		t.Error("an instance is kept that began without what it asked for")
	}
}

// newOf returns an aggregate of a module that stays loaded.
func newOf(t *testing.T, h *Host, wasm []byte) *Aggregate {
	t.Helper()
	m := mustLoad(t, h, wasm)
	t.Cleanup(func() { m.Close() })
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
