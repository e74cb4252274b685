package wasmhost

import (
	"fmt"
	"math/rand/v2"
)

// generator makes random valid modules that end: loops count down in locals of their own, and
// calls spend a global budget, so that recursion of every form is there and stops.
type generator struct {
	r      *rand.Rand
	funcs  []asmFunc
	loops  int
	f      *asmFunc
	labels []bool // innermost last: whether a jump there goes forward and takes nothing
	size   int    // statements left for the function
}

const globalBudget = 0 // i32: calls left

func newGenerator(seed uint64) *generator { return &generator{r: random(seed)} }

// module returns a module of a few functions that are all exported, as f0, f1 and so on.
func (g *generator) module() []byte {
	a := &asm{memoryMin: 1, memoryMax: 2, globals: []code{
		cat(ops(typeI32, 1), i32c(60), ops(opEnd)), cat(ops(typeI64, 1), i64c(9), ops(opEnd))}}
	for i := range 1 + g.r.IntN(5) {
		f := asmFunc{export: fmt.Sprintf("f%d", i)}
		for range g.r.IntN(4) {
			f.params += g.kind()
		}
		for range g.r.IntN(4) {
			f.results += g.kind()
		}
		g.funcs = append(g.funcs, f)
	}
	for i := range g.funcs {
		g.f, g.labels, g.size = &g.funcs[i], nil, 25
		for range 2 + g.r.IntN(3) {
			g.f.locals += g.kind()
		}
		g.f.code = cat(g.body(4), g.values(g.f.results))
		a.elements = append(a.elements, uint32(i))
	}
	a.funcs, a.table = g.funcs, uint32(len(g.funcs))
	return a.bytes()
}

func (g *generator) kind() string { return []string{i32, i64}[g.r.IntN(2)] }

// local adds a local and returns its index.
func (g *generator) local(kind string) uint32 {
	g.f.locals += kind
	return uint32(len(g.f.params)+len(g.f.locals)) - 1
}

// pick returns a variable of a kind, making one where there is none.
func (g *generator) pick(kind string) uint32 {
	all := g.f.params + g.f.locals
	var found []uint32
	for i := range min(len(all), len(g.f.params)+5) { // counters of loops come later
		if all[i:i+1] == kind && i < len(g.f.params)+2 {
			found = append(found, uint32(i))
		}
	}
	if len(found) == 0 {
		return g.local(kind)
	}
	return found[g.r.IntN(len(found))]
}

func (g *generator) body(depth int) code {
	var out code
	for range 1 + g.r.IntN(4) {
		if g.size--; g.size < 0 {
			break
		}
		out = append(out, g.statement(depth)...)
	}
	return out
}

// within is body inside of one more label.
func (g *generator) within(forward bool, depth int) code {
	g.labels = append(g.labels, forward)
	defer func() { g.labels = g.labels[:len(g.labels)-1] }()
	return g.body(depth - 1)
}

func (g *generator) statement(depth int) code {
	n := g.r.IntN(14)
	if depth == 0 {
		n %= 6
	}
	switch n {
	default:
		kind := g.kind()
		return cat(g.value(kind, 3), set(g.pick(kind)))
	case 2:
		return store(uint32(g.r.IntN(70000)), g.address(), g.value(i32, 2))
	case 3:
		return cat(g.address(), g.value(i32, 1), g.length(), ops(opPrefixMisc, miscMemoryFill, 0))
	case 4:
		return cat(g.address(), g.address(), g.length(), ops(opPrefixMisc, miscMemoryCopy, 0, 0))
	case 5:
		if g.r.IntN(30) == 0 {
			return ops(opUnreachable)
		}
		return cat(g.value(i64, 2), gset(1))
	case 6:
		return cat(g.value(i32, 2), code{opIf, typeEmpty}, g.within(true, depth), ops(opElse),
			g.within(true, depth), ops(opEnd))
	case 7:
		return block(g.within(true, depth))
	case 8, 9:
		g.loops++
		counter := g.local(i32)
		return cat(i32c(int32(1+g.r.IntN(5))), set(counter),
			loop(g.within(false, depth), inc(counter, -1), get(counter), brIf(0)))
	case 10:
		return g.jump()
	case 11:
		return cat(g.value(i32, 2), when(g.values(g.f.results), ops(opReturn)))
	case 12, 13:
		return g.call()
	}
}

// jump leaves a block early: conditionally, by a table, or at once with the function's results.
func (g *generator) jump() code {
	var forward []uint32
	for i, ok := range g.labels {
		if ok {
			forward = append(forward, uint32(len(g.labels)-1-i))
		}
	}
	if len(forward) == 0 || g.r.IntN(4) == 0 {
		// The label of the function itself, from inside of an if.
		return cat(g.value(i32, 1), when(g.values(g.f.results), br(uint32(len(g.labels)+1))))
	}
	to := func() uint32 { return forward[g.r.IntN(len(forward))] }
	if g.r.IntN(2) == 0 {
		return cat(g.value(i32, 2), brIf(to()))
	}
	table := appendU32(code{opBrTable}, 2)
	for range 3 {
		table = appendU32(table, to())
	}
	return cat(g.value(i32, 2), table)
}

// call calls any function, itself included, directly or through the table, while the budget lasts.
func (g *generator) call() code {
	callee := uint32(g.r.IntN(len(g.funcs)))
	f := &g.funcs[callee]
	invoke := cat(g.values(f.params), call(callee))
	if g.r.IntN(2) == 0 {
		invoke = cat(g.values(f.params), i32c(int32(g.r.IntN(len(g.funcs)))),
			appendU32(code{opCallIndirect}, callee), ops(0))
	}
	for range len(f.results) {
		invoke = append(invoke, dropOp)
	}
	return cat(gget(globalBudget), when(sub(gget(globalBudget), i32c(1)), gset(globalBudget),
		invoke))
}

func (g *generator) values(kinds string) code {
	var out code
	for _, kind := range []byte(kinds) {
		out = append(out, g.value(string(rune(kind)), 2)...)
	}
	return out
}

// address is nearly always inside of the memory.
func (g *generator) address() code {
	if g.r.IntN(40) == 0 {
		return g.value(i32, 1)
	}
	return cat(g.value(i32, 1), i32c(0x7fff), ops(i32And))
}

func (g *generator) length() code { return cat(g.value(i32, 1), i32c(0x3ff), ops(i32And)) }

func (g *generator) value(kind string, depth int) code {
	wide := kind == i64
	choose := func(narrow, wider byte) code {
		if wide {
			return ops(wider)
		}
		return ops(narrow)
	}
	n := g.r.IntN(9)
	if depth == 0 {
		n %= 3
	}
	switch n {
	default:
		v := int64(g.r.Uint64() >> g.r.IntN(64))
		if wide {
			return i64c(v)
		}
		return i32c(int32(v))
	case 1, 2:
		return get(g.pick(kind))
	case 3, 4: // add to xor, division only now and then because it traps
		op := byte(g.r.IntN(10))
		if op >= 3 && op <= 6 && g.r.IntN(8) > 0 {
			op = 0
		}
		return cat(g.value(kind, depth-1), g.value(kind, depth-1), choose(0x6a+op, 0x7c+op))
	case 5:
		if wide {
			return cat(g.address(), load8(0))
		}
		return cat(g.address(), load(0))
	case 6:
		if wide {
			return cat(g.value(i32, depth-1), ops(opI64ExtendU))
		}
		return cat(g.value(i64, depth-1), ops(0xa7)) // i32.wrap
	case 7:
		if wide {
			return gget(1)
		}
		return cat(g.value(i64, depth-1), g.value(i64, depth-1), ops(byte(0x51+g.r.IntN(10))))
	case 8:
		return cat(g.value(kind, depth-1), g.value(kind, depth-1), g.value(i32, depth-1), ops(0x1b))
	}
}
