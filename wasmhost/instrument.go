package wasmhost

import (
	"fmt"
	"math"
)

// instrumenterVersion changes whenever the rewritten module for the same input changes.
//
//	1: fuel at function entries and loop headers, depth on cycles, bulk priced by length
//	2: memory.grow paid where it stands
//	3: the trampoline
//	4: mutable globals exported, segments of data joined
//	5: several results of a call in the price of a frame
//	6: refuel: code that is out of fuel requests more, loops from outside of themselves
const instrumenterVersion = 6

// instrumentation is a rewritten module and what its host must know.
type instrumentation struct {
	wasm       []byte
	hasStart   bool     // the start function can be called through the trampoline
	trampoline string   // what stack traces call the trampoline
	counted    int      // functions with a depth counter
	globals    []string // exports of the module's own globals
	resets     bool     // memory and globals are all that calls can change
	most       uint64   // bytes of memory, at most
}

// instrument rewrites a module so that every call of it ends: an exported global of fuel is
// charged at each function entry and loop header and the module asks the host for more when it
// runs out, see appendRefuel, and functions that can recurse count their depth in a second global.
//
// Every run of instructions between two charges executes at most once per charge, because
// WebAssembly jumps backwards only to loop headers; so fuel bounds instructions.
//
// The input must be valid: a module that names a function, global or local just beyond its own
// would otherwise reach those added here. Custom sections other than the function names are
// dropped.
func (m *parsed) instrument(functions []*function, fuel int64, depth int32) *instrumentation {
	m.markDepth(functions)
	w := writer{m: m, fuel: m.globals, depth: m.globals + 1, types: uint32(len(m.types))}
	code := appendU32(nil, uint32(len(functions)+added))
	var scratch []byte
	add := func(body []byte) {
		code = appendU32(code, uint32(len(body)))
		code = append(code, body...)
		scratch = body[:0]
	}
	for _, f := range functions {
		add(w.appendBody(scratch, f))
	}
	add(m.appendTrampoline(scratch))
	add(w.appendRefuel(scratch))
	out := &instrumentation{hasStart: m.start >= 0, most: uint64(m.mostPages) << 16,
		trampoline: fmt.Sprintf("$%d", m.trampolineIndex())}
	for _, f := range functions {
		if f.depth > 0 {
			out.counted++
		}
	}
	for _, i := range m.variables {
		out.globals = append(out.globals, globalExport(i))
	}
	out.resets = !m.hidden
	out.wasm = w.assemble(code, fuel, depth)
	return out
}

// writer produces the rewritten sections.
type writer struct {
	m           *parsed
	fuel, depth uint32 // indices of the added globals
	types       uint32 // number of types, added ones included
	newTypes    []byte // entries added to the type section
	blockTypes  map[uint32]uint32
}

func (w *writer) assemble(code []byte, initialFuel int64, depth int32) []byte {
	m := w.m
	size := 1024 + len(code)
	for _, s := range m.sections {
		size += len(s)
	}
	out := append(make([]byte, 0, size), "\x00asm\x01\x00\x00\x00"...)
	section := func(id byte, content []byte) {
		if content != nil {
			out = appendU32(append(out, id), uint32(len(content)))
			out = append(out, content...)
		}
	}
	section(secType, grown(m.sections[secType], w.types+added, append(append(w.newTypes,
		trampolineType()...), refuelType()...)))
	section(secImport, m.sections[secImport])
	section(secFunction, grown(m.sections[secFunction], uint32(len(m.functions)+added),
		appendU32(appendU32(nil, w.types), w.types+1)))
	section(secTable, m.sections[secTable])
	section(secMemory, m.memorySection())
	section(secGlobal, grown(m.sections[secGlobal], m.globals+2, addedGlobals(initialFuel, depth)))
	added, exports := w.addedExports()
	section(secExport, grown(m.sections[secExport], added, exports))
	section(secElement, m.sections[secElement])
	section(secDataCount, m.sections[secDataCount])
	section(secCode, code)
	section(secData, m.joinedData())
	if m.names != nil {
		section(secCustom, m.names)
	}
	return out
}

// grown returns the body of a section that is a vector with a new count and more entries.
func grown(section []byte, count uint32, more []byte) []byte {
	if section == nil && len(more) == 0 {
		return nil
	}
	r := reader{src: section}
	if len(section) > 0 {
		r.u32()
	}
	out := appendU32(nil, count)
	out = append(out, section[r.pos:]...)
	return append(out, more...)
}

func addedGlobals(initialFuel int64, depth int32) []byte {
	b := []byte{typeI64, 1, opI64Const}
	b = append(appendSigned(b, initialFuel), opEnd)
	b = append(b, typeI32, 1, opI32Const)
	return append(appendSigned(b, int64(depth)), opEnd)
}

func (w *writer) addedExports() (count uint32, entries []byte) {
	add := func(name string, kind byte, index uint32) {
		entries = appendU32(entries, uint32(len(name)))
		entries = append(append(entries, name...), kind)
		entries = appendU32(entries, index)
		count++
	}
	add(exportFuel, kindGlobal, w.fuel)
	add(exportDepth, kindGlobal, w.depth)
	add(exportTrampoline, kindFunc, w.m.trampolineIndex())
	for _, i := range w.m.variables {
		add(globalExport(i), kindGlobal, i)
	}
	return count + uint32(len(w.m.exports)), entries
}

// globalExport is under what name a mutable global is exported.
func globalExport(index uint32) string { return fmt.Sprint(exportGlobal, index) }

// appendBody rewrites one function.
func (w *writer) appendBody(dst []byte, f *function) []byte {
	t64 := f.params + f.locals // the local that holds fuel after a charge
	t32 := t64 + 1             // the local that holds a length or a depth
	dst = appendU32(dst, f.groups+2)
	dst = append(dst, f.src[f.localsFrom:f.code]...)
	dst = append(dst, 1, typeI64, 1, typeI32)
	if f.depth > 0 {
		dst = w.appendEnter(dst, f.depth, t32)
	}
	dst = w.appendCharge(dst, f.weights[0], t64)
	if f.depth > 0 {
		dst = append(dst, opBlock)
		dst = w.appendBlockType(dst, f.typ)
	}
	if len(f.weights) > 1 || f.bulk || f.depth > 0 && f.returns {
		dst = w.appendCode(dst, f, t64, t32)
	} else {
		dst = append(dst, f.src[f.code:]...)
	}
	if f.depth > 0 {
		dst = w.appendLeave(dst, f.depth)
	}
	return dst
}

// appendCode copies the instructions and adds charges. Where a body is wrapped in a block, the
// block takes the place of the function's own label, so that only return has to change. A loop is
// wrapped in one more, which jumps out of it must reach beyond.
func (w *writer) appendCode(dst []byte, f *function, t64, t32 uint32) []byte {
	r := reader{src: f.src, pos: f.code}
	var in instr
	loop := 0
	around := make([]uint32, 1, 16) // around[n]: loops among the n outermost blocks that are open
	copied := f.code
	for !r.done() {
		in.next(&r)
		nesting := uint32(len(around) - 1)
		loops := around[nesting]
		switch in.op {
		case opBlock, opIf:
			around = append(around, loops)
		case opLoop:
			around = append(around, loops+1)
			loop++
			dst = append(dst, f.src[copied:in.start]...)
			copied = in.end
			dst = w.appendLoop(dst, f.src[in.start:in.end], f.weights[loop], t64)
		case opEnd:
			if around = around[:nesting]; nesting > 0 && around[nesting-1] < loops {
				dst = append(dst, f.src[copied:in.start]...)
				copied = in.start
				dst = append(dst, opEnd)
			}
		case opBr, opBrIf, opBrTable:
			if loops > 0 {
				dst = append(dst, f.src[copied:in.start]...)
				copied = in.end
				dst = appendJump(dst, f.src[in.start:in.end], around)
			}
		case opReturn:
			if f.depth > 0 {
				dst = append(dst, f.src[copied:in.start]...)
				copied = in.end
				dst = appendU32(append(dst, opBr), nesting+loops)
			}
		case opMemoryGrow:
			dst = append(dst, f.src[copied:in.start]...)
			copied = in.start
			dst = w.appendCharge(dst, growPrice, t64)
		case opPrefixMisc:
			if shift, ok := in.bulk(); ok {
				dst = append(dst, f.src[copied:in.start]...)
				copied = in.start
				dst = w.appendBulkCharge(dst, shift, t64, t32)
			}
		}
	}
	return append(dst, f.src[copied:]...)
}

// appendCharge subtracts a price from the fuel and asks for more when nothing is left.
func (w *writer) appendCharge(dst []byte, price, t64 uint32) []byte {
	dst = appendU32(append(dst, opGlobalGet), w.fuel)
	dst = appendSigned(append(dst, opI64Const), int64(min(price, math.MaxInt32)))
	return w.appendSpend(dst, t64)
}

// appendSpend expects fuel and price on the stack.
func (w *writer) appendSpend(dst []byte, t64 uint32) []byte {
	dst = w.appendSubtract(dst, t64)
	dst = appendU32(append(dst, opIf, typeEmpty, opCall), w.m.trampolineIndex()+1)
	return append(dst, opEnd)
}

// appendSubtract expects fuel and price on the stack and leaves whether that was too much.
func (w *writer) appendSubtract(dst []byte, t64 uint32) []byte {
	dst = appendU32(append(dst, opI64Sub, opLocalTee), t64)
	dst = appendU32(append(dst, opGlobalSet), w.fuel)
	dst = appendU32(append(dst, opLocalGet), t64)
	return append(dst, opI64Const, 0, opI64LtS)
}

// appendBulkCharge spends the length on top of the stack, shifted, and leaves it there.
func (w *writer) appendBulkCharge(dst []byte, shift byte, t64, t32 uint32) []byte {
	dst = appendU32(append(dst, opLocalTee), t32)
	dst = appendU32(append(dst, opGlobalGet), w.fuel)
	dst = appendU32(append(dst, opLocalGet), t32)
	dst = append(dst, opI64ExtendU, opI64Const, shift, opI64ShrU)
	dst = w.appendSpend(dst, t64)
	return dst
}

func (w *writer) appendEnter(dst []byte, depth, t32 uint32) []byte {
	dst = appendU32(append(dst, opGlobalGet), w.depth)
	dst = appendSigned(append(dst, opI32Const), int64(depth))
	dst = appendU32(append(dst, opI32Sub, opLocalTee), t32)
	dst = appendU32(append(dst, opGlobalSet), w.depth)
	dst = appendU32(append(dst, opLocalGet), t32)
	return append(dst, opI32Const, 0, opI32LtS, opIf, typeEmpty, opUnreachable, opEnd)
}

func (w *writer) appendLeave(dst []byte, depth uint32) []byte {
	dst = appendU32(append(dst, opGlobalGet), w.depth)
	dst = appendSigned(append(dst, opI32Const), int64(depth))
	dst = appendU32(append(dst, opI32Add, opGlobalSet), w.depth)
	return append(dst, opEnd)
}

// appendBlockType writes the type of a block without parameters and with the results of a
// function type, adding a type to the module where it takes one.
func (w *writer) appendBlockType(dst []byte, typ uint32) []byte {
	results := w.m.types[typ].results
	switch len(results) {
	case 0:
		return append(dst, typeEmpty)
	case 1:
		return append(dst, results[0])
	}
	index, ok := w.blockTypes[typ]
	if !ok {
		index = w.types
		w.types++
		w.newTypes = append(w.newTypes, typeFunc, 0)
		w.newTypes = appendU32(w.newTypes, uint32(len(results)))
		w.newTypes = append(w.newTypes, results...)
		if w.blockTypes == nil {
			w.blockTypes = map[uint32]uint32{}
		}
		w.blockTypes[typ] = index
	}
	return appendSigned(dst, int64(index))
}
