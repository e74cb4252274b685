package wasmhost

// Opcodes of the WebAssembly core specification 2.0 that the instrumenter has to know.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32LtS       = 0x48
	opI64LtS       = 0x53
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI64Sub       = 0x7d
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opLastNumeric  = 0xc4
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefixMisc   = 0xfc
	opPrefixVector = 0xfd

	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableSize  = 16
	miscTableFill  = 17

	typeI32     = 0x7f
	typeI64     = 0x7e
	typeF32     = 0x7d
	typeF64     = 0x7c
	typeV128    = 0x7b
	typeFuncref = 0x70
	typeExtern  = 0x6f
	typeFunc    = 0x60
	typeEmpty   = 0x40
)

func isValueType(t byte) bool { return t >= typeV128 && t <= typeI32 || isRefType(t) }

func isRefType(t byte) bool { return t == typeFuncref || t == typeExtern }

// instr is one decoded instruction: body[start:end].
type instr struct {
	op         byte
	sub        uint32 // of a prefixed instruction
	arg        uint32 // first index among the immediates, or labels of br_table but for the last
	block      int64  // block type of block, loop and if: a type index, or negative
	start, end int
}

// next decodes the instruction at the reader's position with all its immediates. It checks form,
// not meaning: wazero has validated the module, or will refuse it.
func (in *instr) next(r *reader) {
	*in = instr{start: r.pos}
	in.op = r.byte()
	switch op := in.op; {
	case op == opBlock || op == opLoop || op == opIf:
		in.block = r.signed(33)
	case op == opBr || op == opBrIf || op == opCall || op == opRefFunc ||
		op >= opLocalGet && op <= opTableSet:
		in.arg = r.u32()
	case op == opBrTable:
		in.arg = r.count("branch labels", maxModuleBytes)
		for range in.arg {
			r.u32()
		}
		r.u32()
	case op == opCallIndirect:
		in.arg = r.u32()
		r.u32()
	case op == opSelectTyped:
		r.bytes(r.count("select types", 1))
	case op > opTableSet+1 && op < opMemorySize: // loads and stores
		r.u32()
		r.u32()
	case op == opMemorySize || op == opMemoryGrow || op == opRefNull:
		r.byte()
	case op == opI32Const:
		r.signed(32)
	case op == opI64Const:
		r.signed(64)
	case op == opF32Const:
		r.bytes(4)
	case op == opF64Const:
		r.bytes(8)
	case op == opPrefixMisc:
		in.misc(r)
	case op == opPrefixVector:
		in.vector(r)
	case op > opF64Const && op <= opLastNumeric, op == opUnreachable, op == 0x01, /* nop */
		op == opElse, op == opEnd, op == opReturn, op == 0x1a /* drop */, op == 0x1b, /* select */
		op == opRefIsNull:
	case op == 0x12 || op == 0x13:
		r.failf("tail calls are not allowed")
	case op == 0xfe:
		r.failf("threads are not allowed")
	default:
		r.failf("instruction 0x%02x is not part of WebAssembly 2.0", op)
	}
	in.end = r.pos
}

func (in *instr) misc(r *reader) {
	in.sub = r.u32()
	switch in.sub {
	case miscMemoryInit, miscMemoryCopy, miscTableInit, miscTableCopy:
		in.arg = r.u32()
		r.u32()
	case miscDataDrop, miscElemDrop, miscMemoryFill, miscTableSize, miscTableFill:
		in.arg = r.u32()
	case miscTableGrow:
		r.failf("table.grow is not allowed; declare the table with the size it needs")
	default:
		if in.sub > 7 { // 0 to 7 are saturating conversions
			r.failf("instruction 0xfc %d is not part of WebAssembly 2.0", in.sub)
		}
	}
}

func (in *instr) vector(r *reader) {
	in.sub = r.u32()
	switch s := in.sub; {
	case s <= 11, s == 0x5c, s == 0x5d: // loads and stores
		r.u32()
		r.u32()
	case s == 12, s == 13: // const, shuffle
		r.bytes(16)
	case s >= 0x15 && s <= 0x22: // lanes
		r.byte()
	case s >= 0x54 && s <= 0x5b: // loads and stores of one lane
		r.u32()
		r.u32()
		r.byte()
	case s > 0xff:
		r.failf("relaxed vector instructions are not allowed")
	}
}

// bulk reports whether the instruction takes a length from the stack that must be paid for, and
// how many bits to shift that length to get its price.
func (in *instr) bulk() (shift byte, ok bool) {
	if in.op != opPrefixMisc {
		return 0, false
	}
	switch in.sub {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill:
		return bulkShift, true
	case miscTableInit, miscTableCopy, miscTableFill:
		return 0, true
	}
	return 0, false
}

// hides reports whether the instruction changes a table, drops a segment or makes a reference, all
// of which the runtime remembers.
func (in *instr) hides() bool {
	switch in.op {
	case opTableSet, opRefFunc:
		return true
	case opPrefixMisc:
		switch in.sub {
		case miscDataDrop, miscElemDrop, miscTableInit, miscTableCopy, miscTableFill:
			return true
		}
	}
	return false
}
