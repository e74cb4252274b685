package wasmhost

import (
	"maps"
	"slices"
)

// A small assembler for modules that no compiler would write.

// code is a sequence of instructions.
type code []byte

func cat(parts ...code) code {
	var out code
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func ops(b ...byte) code { return b }

func i32c(v int32) code   { return appendSigned(code{opI32Const}, int64(v)) }
func i64c(v int64) code   { return appendSigned(code{opI64Const}, v) }
func get(i uint32) code   { return appendU32(code{opLocalGet}, i) }
func set(i uint32) code   { return appendU32(code{0x21}, i) }
func gget(i uint32) code  { return appendU32(code{opGlobalGet}, i) }
func gset(i uint32) code  { return appendU32(code{opGlobalSet}, i) }
func call(i uint32) code  { return appendU32(code{opCall}, i) }
func br(i uint32) code    { return appendU32(code{opBr}, i) }
func brIf(i uint32) code  { return appendU32(code{opBrIf}, i) }
func load(o uint32) code  { return appendU32(code{0x28, 2}, o) }
func load8(o uint32) code { return appendU32(code{0x29, 3}, o) }

// block, loop and branch have no parameters and no results.
func block(body ...code) code { return wrap(opBlock, body) }
func loop(body ...code) code  { return wrap(opLoop, body) }
func when(body ...code) code  { return wrap(opIf, body) }

func wrap(op byte, body []code) code {
	return append(append(code{op, typeEmpty}, cat(body...)...), opEnd)
}

// store and store8 expect the address and the value as code.
func store(o uint32, address, value code) code {
	return cat(address, value, appendU32(code{0x36, 2}, o))
}
func store8(o uint32, address, value code) code {
	return cat(address, value, appendU32(code{0x37, 3}, o))
}

const (
	i32Eqz    = 0x45
	i32Ne     = 0x47
	i32GeU    = 0x4f
	i32GtU    = 0x4b
	i64GtS    = 0x55
	i32Mul    = 0x6c
	i32DivS   = 0x6d
	i32And    = 0x71
	i32Shl    = 0x74
	i32ShrU   = 0x76
	i64Add    = 0x7c
	i64Or     = 0x84
	i64Shl    = 0x86
	dropOp    = 0x1a
	funcType0 = "" // () -> ()
)

func add(a, b code) code { return cat(a, b, ops(opI32Add)) }
func sub(a, b code) code { return cat(a, b, ops(opI32Sub)) }
func mul(a, b code) code { return cat(a, b, ops(i32Mul)) }

// inc adds v to a local.
func inc(local uint32, v int32) code { return cat(add(get(local), i32c(v)), set(local)) }

// asmFunc is one function: its type, the types of its locals and its code without the end.
type asmFunc struct {
	params, results string
	locals          string
	code            code
	export          string
}

// asm is a module under construction. Raw sections, by id, replace what would be built.
type asm struct {
	imports   []importFunc // of type 0
	funcs     []asmFunc
	memoryMin uint32
	memoryMax uint32
	noMemory  bool
	globals   []code // whole entries
	exports   []code // whole entries, beside memory and the functions
	data      map[uint32][]byte
	table     uint32   // elements of a table, 0 for none
	elements  []uint32 // functions put into it from 0
	start     int      // function index + 1
	raw       map[byte][]byte
}

func vector(entries []code) []byte {
	return append(appendU32(nil, uint32(len(entries))), cat(entries...)...)
}

func named(name string, rest ...byte) code {
	return append(append(appendU32(nil, uint32(len(name))), name...), rest...)
}

func (a *asm) bytes() []byte {
	var types, funcs, bodies, exports, data []code
	if !a.noMemory {
		exports = append(exports, named(exportMemory, kindMemory, 0))
	}
	for i, f := range a.funcs {
		types = append(types, cat(code{typeFunc}, named(f.params), named(f.results)))
		funcs = append(funcs, appendU32(nil, uint32(i)))
		var locals []code
		for _, t := range []byte(f.locals) {
			locals = append(locals, code{1, t})
		}
		b := append(append(vector(locals), f.code...), opEnd)
		bodies = append(bodies, append(appendU32(nil, uint32(len(b))), b...))
		if f.export != "" {
			index := appendU32(nil, uint32(i+len(a.imports)))
			exports = append(exports, append(named(f.export, kindFunc), index...))
		}
	}
	for _, at := range slices.Sorted(maps.Keys(a.data)) {
		data = append(data, cat(code{0}, i32c(int32(at)), ops(opEnd), named(string(a.data[at]))))
	}
	var imports []code
	for _, f := range a.imports {
		imports = append(imports, cat(named(f.module), named(f.name), code{kindFunc},
			appendU32(nil, f.typ)))
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, content []byte, wanted bool) {
		if raw, ok := a.raw[id]; ok {
			content, wanted = raw, raw != nil
		}
		if wanted {
			out = appendU32(append(out, id), uint32(len(content)))
			out = append(out, content...)
		}
	}
	memory := appendU32([]byte{1, 0}, max(1, a.memoryMin))
	if a.memoryMax > 0 {
		memory = appendU32(appendU32([]byte{1, 1}, max(1, a.memoryMin)), a.memoryMax)
	}
	var elements []code
	for _, f := range a.elements {
		elements = append(elements, appendU32(nil, f))
	}
	segment := cat(code{1, 0}, i32c(0), ops(opEnd), vector(elements))
	section(secType, vector(types), true)
	section(secImport, vector(imports), len(imports) > 0)
	section(secFunction, vector(funcs), true)
	section(secTable, appendU32([]byte{1, typeFuncref, 0}, a.table), a.table > 0)
	section(secMemory, memory, !a.noMemory)
	section(secGlobal, vector(a.globals), len(a.globals) > 0)
	section(secExport, vector(append(exports, a.exports...)), true)
	section(secStart, appendU32(nil, uint32(a.start-1)), a.start > 0)
	section(secElement, segment, len(a.elements) > 0)
	section(secDataCount, nil, false)
	section(secCode, vector(bodies), true)
	section(secData, vector(data), len(data) > 0)
	return out
}
