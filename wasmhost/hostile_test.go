package wasmhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// spin is an endless loop; a value behind it would never be reached.
var spin = cat(loop(br(0)), ops(opUnreachable))

// refuse loads a module that must be refused for a reason that contains want, and then shows
// that the host still serves a good one.
func refuse(t *testing.T, h *Host, name string, wasm []byte, want string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		m, err := h.Load(t.Context(), wasm)
		var e *Error
		switch {
		case err == nil:
			t.Errorf("accepted")
			m.Close()
		case !errors.As(err, &e):
			t.Errorf("error %v is no *Error", err)
		case !strings.Contains(err.Error(), want):
			t.Errorf("refused with %q, want %q", err, want)
		}
		good := mustLoad(t, h, good(nil))
		defer good.Close()
		checkGood(t, good)
	})
}

func TestRefusedForm(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(name string, wasm []byte, want string) { t.Helper(); refuse(t, h, name, wasm, want) }
	ok := good(nil)
	f("empty", nil, "not a WebAssembly module")
	f("text", []byte("hello, this is text"), "not a WebAssembly module")
	f("version", append([]byte("\x00asm\x02\x00\x00\x00"), ok[8:]...), "version 02 00 00 00")
	f("component", append([]byte("\x00asm\x0d\x00\x01\x00"), ok[8:]...), "components")
	f("header only", ok[:8], `export "memory" is missing`)
	f("cut off", ok[:len(ok)-5], "fewer follow")
	f("trailing", append(bytes.Clone(ok), 7), "ends early")
	f("too large", append(bytes.Clone(ok), make([]byte, maxModuleBytes)...), "at most 262144")
	f("much too large", append(bytes.Clone(ok), make([]byte, maxGoModuleBytes)...),
		"at most 4194304")
	f("section order", good(func(a *asm) { a.raw = map[byte][]byte{secDataCount: {1}} }), "data")
	f("unknown section", append(bytes.Clone(ok), 13, 1, 0), "section 13")
	f("repeated section", append(bytes.Clone(ok), secType, 1, 0), "repeated or out of order")
	f("invalid code", good(func(a *asm) { a.replace(exportInit, "", cat()) }), "pentad_init")
	f("fuel theft", good(func(a *asm) {
		a.replace(exportInit, "", cat(i64c(math.MaxInt64), gset(2), i32c(0)))
	}), "global")
	f("fuel theft without globals", good(func(a *asm) {
		a.globals = nil
		a.replace(exportInit, "", cat(i64c(math.MaxInt64), gset(0), i32c(0)))
		a.replace(exportAlloc, i32, i32c(0))
		a.replace(exportFilter, "", i32c(0))
	}), "global")
	f("depth theft", good(func(a *asm) {
		a.replace(exportInit, "", cat(i32c(math.MaxInt32), gset(3), i32c(0)))
	}), "global")
	f("local theft", good(func(a *asm) {
		a.replace(exportInit, "", cat(i64c(math.MaxInt64), set(2), i32c(0)))
	}), "local")
	f("type theft", good(func(a *asm) {
		a.replace(exportInit, "", cat(code{opBlock, 50}, ops(opEnd), i32c(0)))
	}), "")
}

func TestRefusedExports(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(name string, want string, change func(*asm)) {
		t.Helper()
		refuse(t, h, name, good(change), want)
	}
	for _, s := range signatures {
		if s.needed != needAlways {
			continue
		}
		f("no "+s.name, s.name+`" is missing`, func(a *asm) { a.remove(s.name) })
	}
	f("neither kind", "a plugin is one of the two", func(a *asm) {
		a.remove(exportFilter)
		a.remove(exportMerge)
	})
	f("filter only by word", "lacks the exports", func(a *asm) { a.remove(exportFilter) })
	f("aggregate only by word", "lacks the exports", func(a *asm) { a.remove(exportFinish) })
	f("no memory", `"memory" is missing`, func(a *asm) {
		a.noMemory, a.data = true, nil
		for _, name := range []string{exportDescribe, exportAlloc, exportInit, exportFilter,
			exportAdd, exportMerge, exportFinish} {
			a.replace(name, "", i32c(0))
		}
		a.replace(exportStateInit, "", nil)
	})
	f("wrong type", "want a function (i32, i32) -> (i32)", func(a *asm) {
		i := slices.IndexFunc(a.funcs, func(f asmFunc) bool { return f.export == exportAdd })
		a.funcs[i].params = i64 + i32
		a.funcs[i].code = i32c(0)
	})
	f("export is a global", "want a function", func(a *asm) {
		a.remove(exportInit)
		a.exports = append(a.exports, named(exportInit, kindGlobal, 0))
	})
	f("memory is a function", `"memory" is missing`, func(a *asm) {
		a.raw = map[byte][]byte{secExport: vector([]code{named(exportMemory, kindFunc, 0)})}
	})
	f("pentad_fuel", "belong to the host", func(a *asm) {
		a.exports = append(a.exports, named(exportFuel, kindGlobal, 0))
	})
	f("pentad_depth_x", "belong to the host", func(a *asm) {
		a.exports = append(a.exports, named("pentad_depth_x", kindGlobal, 0))
	})
	f("imports", "imports nothing", func(a *asm) {
		a.imports = []importFunc{{module: "env", name: "log"}}
	})
	f("wasi without the profile", "Go profile of this node is switched off", func(a *asm) {
		a.imports = []importFunc{{module: wasiModule, name: "sched_yield"}}
	})
}

func TestRefusedSizes(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(name string, want string, change func(*asm)) {
		t.Helper()
		refuse(t, h, name, good(change), want)
	}
	body := func(name, want, locals string, c code) {
		t.Helper()
		f(name, want, func(a *asm) { a.replace(exportInit, locals, c) })
	}
	f("memory", "at most 256", func(a *asm) { a.memoryMin = 257 })
	f("table", "tables of 100000000 elements", func(a *asm) { a.table = 100_000_000 })
	f("tables", "tables of 60000 elements", func(a *asm) {
		two := []code{appendU32(code{typeFuncref, 0}, 30_000),
			appendU32(code{typeFuncref, 0}, 30_000)}
		a.raw = map[byte][]byte{secTable: vector(two)}
	})
	f("functions", "fewer follow", func(a *asm) {
		a.raw = map[byte][]byte{secFunction: appendU32(nil, 1_000_000)}
	})
	f("exports", "1011 exports, at most 1000", func(a *asm) {
		for i := range 1000 {
			a.exports = append(a.exports, named(fmt.Sprint(i), kindFunc, 0))
		}
	})
	f("globals", "1002 globals, at most 1000", func(a *asm) {
		for range 1000 {
			a.globals = append(a.globals, a.globals[1])
		}
	})
	f("types", "5000 types, at most 4096", func(a *asm) {
		types := slices.Repeat([]code{{typeFunc, 0, 0}}, 5000)
		a.raw = map[byte][]byte{secType: vector(types)}
	})
	f("many functions", "at most 10000", func(a *asm) {
		for range 10_001 {
			a.funcs = append(a.funcs, asmFunc{})
		}
		a.raw = map[byte][]byte{secType: vector([]code{{typeFunc, 0, 0}})}
		a.raw[secFunction] = append(appendU32(nil, 10_001), make([]byte, 10_001)...)
	})
	nested := func(n int) code {
		return cat(bytes.Repeat(code{opBlock, typeEmpty}, n), bytes.Repeat(code{opEnd}, n), i32c(0))
	}
	body("20000 nested blocks", "nested deeper than 512", "", nested(20_000))
	body("600 nested blocks", "nested deeper", "", nested(600))
	body("16000 blocks", "more than 1000 blocks", "",
		cat(bytes.Repeat(block(), 16_000), i32c(0)))
	f("long body", "split it", func(a *asm) {
		a.replace(exportInit, "", cat(bytes.Repeat(ops(0x01), maxBodyBytes), i32c(0)))
	})
	body("table.grow", "table.grow is not allowed", "", ops(opRefNull, typeFuncref, opI32Const, 1,
		opPrefixMisc, miscTableGrow, 0))
	body("tail call", "tail calls", "", ops(0x12, 0))
	body("atomics", "threads", "", ops(0xfe, 0, 2, 0))
	body("relaxed vectors", "relaxed", "", ops(opPrefixVector, 0x80, 0x02))
	body("exceptions", "not part of WebAssembly 2.0", "", ops(0x08, 0))
	f("shared memory", "shared memory", func(a *asm) {
		a.raw = map[byte][]byte{secMemory: {1, 3, 1, 1}}
	})
	f("two memories", "2 memories", func(a *asm) {
		a.raw = map[byte][]byte{secMemory: {2, 0, 1, 0, 1}}
	})
	f("memory64", "limits of kind 4", func(a *asm) {
		a.raw = map[byte][]byte{secMemory: {1, 4, 1}}
	})
	f("data out of memory", "out of bounds", func(a *asm) { a.data[65530] = []byte("too far") })
}

// manyLocals is the good plugin with pentad_init, or that many more functions, of a body with
// locals.
func manyLocals(locals, more int, body code) []byte {
	return good(func(a *asm) {
		last := len(a.funcs)
		for range more {
			a.funcs = append(a.funcs, asmFunc{params: i32 + i32, results: i32})
		}
		body := cat(code{1}, appendU32(nil, uint32(locals)), code{typeI32}, body, i32c(0),
			ops(opEnd))
		var bodies []code
		for j, fn := range a.funcs {
			b := append(append(vector(declare(fn.locals)), fn.code...), opEnd)
			if fn.export == exportInit && more == 0 || j >= last {
				b = body
			}
			bodies = append(bodies, append(appendU32(nil, uint32(len(b))), b...))
		}
		a.raw = map[byte][]byte{secCode: vector(bodies)}
	})
}

func TestTooManyLocals(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(name string, locals, ifs int, want string) {
		t.Helper()
		body := bytes.Repeat(cat(get(0), when(i32c(1), set(3))), ifs)
		refuse(t, h, name, manyLocals(locals, 0, body), want)
	}
	f("6000 locals", 6000, 6000, "6000 locals, at most 1000")
	f("locals times blocks", 990, 990, "are too many together")
	f("locals that overflow", math.MaxInt32, 1, "at most 1000")
}

// TestTooManyBranches: without a limit each of these takes the compiler 1 to 40 s of 60 KB.
func TestTooManyBranches(t *testing.T) {
	h := newTestHost(t, Options{})
	var carried, used code
	for i := range uint32(900) {
		carried = append(carried, cat(get(0), set(3+i), get(0), brIf(0))...)
		used = append(used, cat(get(3+i), ops(dropOp))...)
	}
	branch := cat(get(0), brIf(0))
	table := cat(get(0), appendU32(code{opBrTable}, 50_000), make(code, 50_001))
	f := func(name, want string, locals, more int, body code) {
		t.Helper()
		refuse(t, h, name, manyLocals(locals, more, body), want)
	}
	f("locals carried over branches", "900 branches and 992 locals", 990, 0,
		cat(block(carried), used))
	f("branches", "10000 branches and 12 locals", 10, 0, block(bytes.Repeat(branch, 10_000)))
	f("labels of a table", "50001 branches and 2 locals", 0, 0, block(table))
	f("in many functions", "the functions have too many branches", 10, 60,
		block(bytes.Repeat(branch, 1000)))
}

func declare(types string) []code {
	var out []code
	for _, t := range []byte(types) {
		out = append(out, code{1, t})
	}
	return out
}

// fails runs a module whose given step must fail with an error of a kind.
func fails(t *testing.T, h *Host, name string, kind ErrorKind, want string, change func(*asm)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		err := use(t.Context(), h, good(change))
		var e *Error
		switch {
		case !errors.As(err, &e):
			t.Errorf("got %v, want an *Error", err)
		case e.Kind != kind:
			t.Errorf("kind %v, want %v: %v", e.Kind, kind, err)
		case !strings.Contains(err.Error(), want):
			t.Errorf("error %q, want %q", err, want)
		}
		if s := h.Stats(); s.Instances != 0 || s.Modules != 0 || h.budget.used.Load() != 0 {
			t.Errorf("%d instances, %d modules and %d bytes are left", s.Instances, s.Modules,
				h.budget.used.Load())
		}
		m := mustLoad(t, h, good(nil))
		defer m.Close()
		checkGood(t, m)
	})
}

// use does everything that can be done with a plugin until something fails.
func use(ctx context.Context, h *Host, wasm []byte) error {
	m, err := h.Load(ctx, wasm)
	if err != nil {
		return err
	}
	defer m.Close()
	b := values(1, 2, 3)
	f, err := m.NewFilter(ctx, make([]byte, 8))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Keep(ctx, b, make([]uint64, 1)); err != nil {
		if again := f.Keep(ctx, b, make([]uint64, 1)); !errors.Is(again, ErrClosed) {
			return errors.New("a failed filter is still open")
		}
		return err
	}
	a, err := m.NewAggregate(ctx, nil)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.Add(ctx, b, []uint32{2, 1, 0}, 3); err != nil {
		return err
	}
	states, err := a.States(ctx)
	if err != nil {
		return err
	}
	if err := a.Merge(ctx, states, []uint32{0, 2, 1}); err != nil {
		return err
	}
	if _, err := a.Finish(ctx); err != nil {
		if again := a.Add(ctx, b, nil, 3); !errors.Is(again, ErrClosed) {
			return errors.New("a failed aggregate is still open")
		}
		return err
	}
	return nil
}

func TestEndless(t *testing.T) {
	h := newTestHost(t, Options{})
	for _, name := range []string{exportDescribe, exportAlloc, exportInit, exportFilter,
		exportStateInit, exportAdd, exportMerge, exportFinish} {
		fails(t, h, name, Fuel, name+": out of fuel after ",
			func(a *asm) { a.replace(name, "", spin) })
	}
	fails(t, h, "start function", Fuel, "out of fuel", func(a *asm) {
		a.funcs = append(a.funcs, asmFunc{code: loop(br(0))})
		a.start = len(a.funcs)
	})
	fails(t, h, "_initialize", Fuel, "_initialize: out of fuel", func(a *asm) {
		a.funcs = append(a.funcs, asmFunc{code: loop(br(0)), export: exportInitialize})
	})
	fails(t, h, "in pentad_error", Status, "the parameters are not valid (status -1)",
		func(a *asm) {
			a.replace(exportInit, "", i32c(-1))
			a.replace(exportError, "", spin)
		})
	recursion := func(a *asm) {
		a.funcs = append(a.funcs, asmFunc{code: call(uint32(len(a.funcs)))})
		a.replace(exportAdd, "", cat(call(uint32(len(a.funcs)-1)), i32c(0)))
	}
	fails(t, h, "recursion", Fuel, "calls nest too deep", recursion)
	fails(t, h, "recursion through a table", Fuel, "calls nest too deep", func(a *asm) {
		self := uint32(len(a.funcs))
		a.funcs = append(a.funcs, asmFunc{code: cat(i32c(0), appendU32(ops(opCallIndirect), self),
			ops(0))})
		a.table, a.elements = 1, []uint32{self}
		a.replace(exportAdd, "", cat(call(self), i32c(0)))
	})
	fails(t, h, "exponential calls", Fuel, "out of fuel", func(a *asm) {
		a.funcs = append(a.funcs, asmFunc{})
		for range 60 {
			below := call(uint32(len(a.funcs) - 1))
			a.funcs = append(a.funcs, asmFunc{code: cat(below, below)})
		}
		a.replace(exportAdd, "", cat(call(uint32(len(a.funcs)-1)), i32c(0)))
	})
	fails(t, h, "bulk fill", Fuel, "out of fuel", func(a *asm) {
		a.memoryMin = 256
		fill := cat(i32c(0), i32c(0), i32c(1<<24), ops(opPrefixMisc, miscMemoryFill, 0))
		a.replace(exportAdd, "", cat(bytes.Repeat(fill, 1000), i32c(0)))
	})
	fails(t, h, "table fill", Fuel, "out of fuel", func(a *asm) {
		a.table = 10_000
		fill := cat(i32c(0), ops(opRefNull, typeFuncref), i32c(10_000),
			ops(opPrefixMisc, miscTableFill, 0))
		a.replace(exportAdd, "", cat(bytes.Repeat(fill, 1000), i32c(0)))
	})
}

// A trap in any export is an error that names it, and of the start function as well.
func TestTraps(t *testing.T) {
	h := newTestHost(t, Options{})
	for _, name := range []string{exportDescribe, exportAlloc, exportInit, exportFilter,
		exportStateInit, exportAdd, exportMerge, exportFinish} {
		fails(t, h, name, Trap, name+": unreachable",
			func(a *asm) { a.replace(name, "", ops(opUnreachable)) })
	}
	for _, name := range []string{exportSave, exportLoad} {
		fails(t, h, name, Trap, name+": unreachable", func(a *asm) {
			growing(a)
			a.replace(name, "", ops(opUnreachable))
		})
	}
	fails(t, h, "start function", Trap, "unreachable", func(a *asm) {
		a.funcs = append(a.funcs, asmFunc{code: ops(opUnreachable)})
		a.start = len(a.funcs)
	})
	fails(t, h, "_initialize", Trap, "_initialize: unreachable", func(a *asm) {
		a.funcs = append(a.funcs, asmFunc{code: ops(opUnreachable), export: exportInitialize})
	})
	fails(t, h, "in pentad_error", Status, "status -1", func(a *asm) {
		a.replace(exportInit, "", i32c(-1))
		a.replace(exportError, "", ops(opUnreachable))
	})
}

func TestMemoryBombs(t *testing.T) {
	h := newTestHost(t, Options{})
	fails(t, h, "grow without end", Fuel, "out of fuel", func(a *asm) {
		a.replace(exportAdd, "", cat(loop(i32c(1), ops(opMemoryGrow, 0, dropOp), br(0)), i32c(0)))
	})
	fails(t, h, "alloc refuses", Memory, "no memory for", func(a *asm) {
		a.replace(exportAlloc, "", i32c(0))
	})
	m := mustLoad(t, h, good(nil))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	big := &record.Batch{}
	big.Append(record.Key{}, make([]byte, 20<<20))
	var e *Error
	if err := a.Add(t.Context(), big, nil, 1); !errors.As(err, &e) || e.Kind != Memory {
		t.Errorf("a payload of 20 MiB: %v", err)
	}
}

func TestWrongAnswers(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(name string, kind ErrorKind, want, export string, c code) {
		t.Helper()
		fails(t, h, name, kind, want, func(a *asm) { a.replace(export, "", c) })
	}
	minus := i32c(-64)
	f("descriptor outside", Refused, "outside of the memory", exportDescribe, minus)
	f("descriptor elsewhere", Refused, "starts with 0x00000000", exportDescribe, i32c(0))
	f("alloc outside", Output, "outside of the memory", exportAlloc, minus)
	f("alloc odd", Output, "no multiple of 64", exportAlloc, i32c(100))
	f("alloc overlaps", Output, "overlap the", exportAlloc, i32c(4096))
	f("alloc at the end", Output, "outside of the memory", exportAlloc, i32c(65536-64))
	f("params", Status, ": bad params", exportInit, i32c(-1))
	f("own status", Status, "failed (status -123)", exportInit, i32c(-123))
	f("out of memory", Memory, "out of memory (status -4)", exportAdd, i32c(-4))
	f("payload", Status, "status -2", exportFilter, i32c(-2))
	f("positive status", Output, "returned 7", exportAdd, i32c(7))
	f("merge status", Status, "status -5", exportMerge, i32c(-5))
	f("no room", Status, "status -3", exportFinish, i32c(-3))
	f("finish too long", Output, "says it wrote", exportFinish, i32c(math.MaxInt32))
	f("finish too short", Output, "want 3 results of 16", exportFinish, i32c(32))
	f("unreachable", Trap, "unreachable", exportAdd, ops(opUnreachable))
	f("division", Trap, "integer divide by zero", exportAdd, cat(i32c(1), i32c(0), ops(i32DivS)))
	f("load", Trap, "out of bounds memory access", exportFilter, cat(i32c(-4), load(0)))
	f("store", Trap, "out of bounds memory access", exportAdd,
		cat(store(0, i32c(-4), i32c(1)), i32c(0)))
	fails(t, h, "message outside", Status, "status -1)", func(a *asm) {
		a.replace(exportInit, "", i32c(-1))
		a.replace(exportError, "", i64c(-1))
	})
	fails(t, h, "message moves the cursor", Status, ": \ufffd2J", func(a *asm) {
		a.replace(exportInit, "", i32c(-1))
		a.data[errorAt] = []byte("\u009b2J")
		a.replace(exportError, "", i64c(errorAt<<32|4))
	})
	fails(t, h, "message not UTF-8", Status, ": \ufffdx", func(a *asm) {
		a.replace(exportInit, "", i32c(-1))
		a.data[errorAt] = []byte("\xff\xffx\x00\x00\x00\x00\x00\x00\x00")
		a.replace(exportError, "", i64c(errorAt<<32|3))
	})
}

func TestDescriptorChecks(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(offset int, v uint32, want string) {
		t.Helper()
		fails(t, h, want, Refused, want, func(a *asm) {
			a.data[descAt] = descriptor(func(field func(int, uint32)) { field(offset, v) })
		})
	}
	f(4, 2, "version 2 of the ABI")
	f(8, 0, "kinds are 0x0")
	f(8, 4, "kinds are 0x4")
	f(12, 1024, "needs columns 0x400")
	f(16, 0, "state size 0")
	f(16, 12, "state size 12")
	f(16, 1<<20, "state size 1048576")
	f(20, 3, "state alignment 3")
	f(20, 128, "state alignment 128")
	f(24, 2<<20, "results of 2097152 bytes")
	f(28, 1<<20, "parameters of 1048576 bytes")
	f(40, math.MaxUint32, "the name at 4294967295")
	f(44, 0, "the name must be")
	f(44, 1<<30, "the name must be")
	f(52, 1<<20, "the description")
}
