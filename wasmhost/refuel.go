package wasmhost

import (
	"math"

	"github.com/tetratelabs/wazero/api"
)

// A call has its fuel in slices. A module that has used one up asks for the next by a function that
// the instrumenter adds, refuel, which grows the memory by a page: the one thing that a module
// without imports can ask of the host. The allocator of the memory sees that fuel is missing, makes
// it the occasion to let others run, and grants fuel in place of the page.
//
// A call inside of a loop makes it up to 1.8 times as slow, even if it never happens: the compiler
// keeps in memory what it would have in registers. So a loop that is out of fuel is left, for one
// around it that does nothing else, and is entered again with the same locals.

// sliceFuel is what a call may use before it returns to the host, except for one instruction on a
// lot of memory: 30 µs of a tight loop. A chain of loads that each miss every cache takes 100 ns a
// unit, and so 10 ms. A return takes 0.2 µs.
const sliceFuel = 100_000

// meter is the fuel of an instance.
type meter struct {
	fuel    api.MutableGlobal
	reserve int64        // of the call, besides its slice
	between func() error // called between slices
	stopped error        // error of between, which ended the call
}

// begin gives a call its budget.
func (m *meter) begin(budget int64) {
	slice := min(budget, sliceFuel)
	m.reserve, m.stopped = budget-slice, nil
	m.fuel.Set(uint64(slice))
}

// left is what the call has, below 0 if it used more.
func (m *meter) left() int64 { return int64(m.fuel.Get()) + m.reserve }

// next begins the next slice of a call that is out of fuel, and reports whether there is one.
func (m *meter) next() bool {
	left := m.left()
	if left < 0 || m.stopped != nil {
		return false
	}
	if m.stopped = m.between(); m.stopped != nil {
		return false
	}
	slice := min(left, sliceFuel)
	m.reserve = left - slice
	m.fuel.Set(uint64(slice))
	return true
}

// spend takes what the host did for the call, and reports whether there was so much.
func (m *meter) spend(price int64) bool {
	left := int64(m.fuel.Get()) - price
	m.fuel.Set(uint64(left))
	return left >= 0 || m.next()
}

// refuels is called when the memory is to grow, which a call pays for before.
func (i *instance) refuels() (bytes uint64, fuel bool) {
	if int64(i.meter.fuel.Get()) >= 0 {
		return 0, false
	}
	i.meter.next()
	return uint64(i.memory.Size()), true
}

// added is how many functions and types the instrumenter adds: the trampoline, and refuel.
const added = 2

const (
	opI64Add = 0x7c
	opDrop   = 0x1a
)

// refuelType is the type of refuel as the type section has it.
func refuelType() []byte { return []byte{typeFunc, 0, 0} }

// appendRefuel writes the function that asks for fuel and traps if there is none to have.
func (w *writer) appendRefuel(dst []byte) []byte {
	dst = append(dst, 0) // no locals
	if w.m.hasMemory {
		dst = append(dst, opI32Const, 1, opMemoryGrow, 0, opDrop)
	}
	dst = appendU32(append(dst, opGlobalGet), w.fuel)
	return append(dst, opI64Const, 0, opI64LtS, opIf, typeEmpty, opUnreachable, opEnd, opEnd)
}

// memorySection is that of the module with a page more than the memory may have, so that the host
// is asked for it.
func (m *parsed) memorySection() []byte {
	if !m.hasMemory {
		return m.sections[secMemory]
	}
	return appendU32(appendU32([]byte{1, 1}, m.memoryPages), m.mostPages+1)
}

// appendLoop begins a loop, whose instruction is given, in one that is entered again where fuel is
// missing. What was charged in vain comes back.
func (w *writer) appendLoop(dst, loop []byte, price, t64 uint32) []byte {
	cost := int64(min(price, math.MaxInt32))
	dst = append(dst, loop...)
	dst = appendU32(append(dst, opGlobalGet), w.fuel)
	dst = append(dst, opI64Const, 0, opI64LtS, opIf, typeEmpty)
	dst = appendU32(append(dst, opCall), w.m.trampolineIndex()+1)
	dst = appendU32(append(dst, opGlobalGet), w.fuel)
	dst = append(appendSigned(append(dst, opI64Const), cost), opI64Add)
	dst = append(appendU32(append(dst, opGlobalSet), w.fuel), opEnd)
	dst = append(dst, loop...)
	dst = appendU32(append(dst, opGlobalGet), w.fuel)
	dst = appendSigned(append(dst, opI64Const), cost)
	return append(w.appendSubtract(dst, t64), opBrIf, 1)
}

// appendJump writes a br, br_if or br_table with the labels that it has among the blocks that are
// open, see appendCode.
func appendJump(dst, src []byte, around []uint32) []byte {
	r := reader{src: src, pos: 1}
	dst = append(dst, src[0])
	labels := uint32(1)
	if src[0] == opBrTable {
		labels += r.u32()
		dst = appendU32(dst, labels-1)
	}
	open := uint32(len(around) - 1)
	for range labels {
		label := r.u32()
		dst = appendU32(dst, label+around[open]-around[open-min(label, open)])
	}
	return dst
}
