package wasmhost

import (
	"fmt"
	"math"
)

// Section ids, in the order in which sections must come: data count stands before code.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
	numSections  = 13
)

var sectionOrder = [numSections]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4,
	secMemory: 5, secGlobal: 6, secExport: 7, secStart: 8, secElement: 9, secDataCount: 10,
	secCode: 11, secData: 12}

type funcType struct {
	params, results []byte
}

func (t *funcType) is(params, results string) bool {
	return string(t.params) == params && string(t.results) == results
}

type importFunc struct {
	module, name string
	typ          uint32
}

const (
	kindFunc   = 0
	kindTable  = 1
	kindMemory = 2
	kindGlobal = 3
)

type export struct {
	kind  byte
	index uint32
}

// body is one entry of the code section: local declarations and instructions.
type body struct {
	src    []byte
	offset int // of src in the module
}

// parsed is a module taken apart. Its slices alias the bytes that were parsed.
type parsed struct {
	sections  [numSections][]byte // bodies; nil where absent
	offsets   [numSections]int    // of the bodies in the module
	names     []byte              // body of the custom section "name"
	types     []funcType
	imports   []importFunc
	functions []uint32 // type indices of the module's own functions
	globals   uint32
	variables []uint32 // mutable globals
	// hidden says that calls can change what no image has: tables, segments,
	// vectors in globals, references that the runtime keeps.
	hidden      bool
	hasMemory   bool
	memoryPages uint32 // of 64 KiB, at the start
	mostPages   uint32
	exports     map[string]export
	start       int64 // function index, -1 where absent
	taken       map[uint32]bool
	bodies      []body
}

// parseModule reads all sections of a module and checks the limits that need no code to be read.
// It accepts some modules that are not valid, and no module whose sections it does not know.
func parseModule(wasm []byte, lim *limits) (*parsed, error) {
	m := &parsed{start: -1, exports: map[string]export{}, taken: map[uint32]bool{}}
	if err := m.split(wasm); err != nil {
		return nil, err
	}
	steps := [...]struct {
		section int
		name    string
		parse   func(*reader, *limits)
	}{
		{secType, "type", m.parseTypes}, {secImport, "import", m.parseImports},
		{secFunction, "function", m.parseFunctions}, {secTable, "table", m.parseTables},
		{secMemory, "memory", m.parseMemory}, {secGlobal, "global", m.parseGlobals},
		{secExport, "export", m.parseExports}, {secStart, "start", m.parseStart},
		{secElement, "element", m.parseElements}, {secCode, "code", m.parseCode},
		{secData, "data", m.parseData},
	}
	for _, step := range steps {
		r := reader{src: m.sections[step.section], base: m.offsets[step.section]}
		if r.src == nil {
			continue
		}
		step.parse(&r, lim)
		if r.err == nil && !r.done() {
			r.failf("bytes are left over")
		}
		if r.err != nil {
			return nil, fmt.Errorf("%s section: %w", step.name, r.err)
		}
	}
	if len(m.functions) != len(m.bodies) {
		return nil, fmt.Errorf("%d functions are declared and %d have code",
			len(m.functions), len(m.bodies))
	}
	return m, nil
}

// importsWASI reports whether the first import is from wasi, which tells a program built by Go
// from a plugin of the plain profile.
func importsWASI(wasm []byte) (bool, error) {
	m := &parsed{}
	if err := m.split(wasm); err != nil {
		return false, err
	}
	r := reader{src: m.sections[secImport]}
	return len(r.src) > 0 && r.count("imports", maxTypes) > 0 && r.name() == wasiModule, nil
}

// split finds the sections.
func (m *parsed) split(wasm []byte) error {
	r := reader{src: wasm, pos: 8}
	last := 0
	for !r.done() {
		id := r.byte()
		s := r.sub(r.u32())
		switch {
		case r.err != nil:
		case id == secCustom:
			if s.name() == "name" && s.err == nil && m.names == nil {
				m.names = s.src
			}
		case id >= numSections:
			r.failf("section %d is not part of WebAssembly 2.0", id)
		case sectionOrder[id] <= last:
			r.failf("section %d is repeated or out of order", id)
		default:
			last = sectionOrder[id]
			m.sections[id], m.offsets[id] = s.src, s.base
		}
	}
	return r.err
}

func (m *parsed) parseTypes(r *reader, _ *limits) {
	for range r.count("types", maxTypes) {
		if form := r.byte(); form != typeFunc {
			r.failf("type form 0x%02x is not part of WebAssembly 2.0", form)
			return
		}
		m.types = append(m.types, funcType{
			params:  valueTypes(r, "parameters", maxParams),
			results: valueTypes(r, "results", maxResults),
		})
	}
}

func valueTypes(r *reader, what string, limit uint32) []byte {
	types := r.bytes(r.count(what, limit))
	for _, t := range types {
		if !isValueType(t) {
			r.failf("value type 0x%02x is not part of WebAssembly 2.0", t)
		}
	}
	return types
}

func (m *parsed) parseImports(r *reader, lim *limits) {
	for range r.count("imports", 64) {
		f := importFunc{module: r.name(), name: r.name()}
		kind := r.byte()
		f.typ = r.u32()
		switch {
		case r.err != nil:
			return
		case !lim.goProfile:
			r.failf("import of %q from %q: a plugin imports nothing", f.name, f.module)
			return
		case kind != kindFunc || f.module != wasiModule || wasiFunctions[f.name] == nil:
			r.failf("import of %q from %q: only the functions of the Go runtime are provided",
				f.name, f.module)
			return
		case uint64(f.typ) >= uint64(len(m.types)):
			r.failf("type %d does not exist", f.typ)
			return
		}
		m.imports = append(m.imports, f)
	}
}

func (m *parsed) parseFunctions(r *reader, _ *limits) {
	n := r.count("functions", maxFunctions)
	m.functions = make([]uint32, 0, n)
	for range n {
		t := r.u32()
		if uint64(t) >= uint64(len(m.types)) {
			r.failf("type %d does not exist", t)
			return
		}
		m.functions = append(m.functions, t)
	}
}

func (m *parsed) parseTables(r *reader, _ *limits) {
	total := uint64(0)
	for range r.count("tables", maxTables) {
		if t := r.byte(); !isRefType(t) {
			r.failf("table type 0x%02x is not part of WebAssembly 2.0", t)
		}
		low, _ := parseLimits(r)
		total += uint64(low)
	}
	if total > maxTableElements {
		r.failf("tables of %d elements, at most %d are allowed", total, maxTableElements)
	}
}

// parseLimits returns the minimum, and the maximum where there is one.
func parseLimits(r *reader) (low, high uint32) {
	flag := r.byte()
	low, high = r.u32(), math.MaxUint32
	switch flag {
	case 0:
	case 1:
		high = r.u32()
	case 2, 3:
		r.failf("shared memory is not allowed")
	default:
		r.failf("limits of kind %d are not part of WebAssembly 2.0", flag)
	}
	return low, high
}

func (m *parsed) parseMemory(r *reader, lim *limits) {
	for range r.count("memories", 1) {
		m.hasMemory = true
		m.memoryPages, m.mostPages = parseLimits(r)
		m.mostPages = min(m.mostPages, lim.memoryPages)
		if m.memoryPages > lim.memoryPages {
			r.failf("the memory starts with %d pages of 64 KiB, at most %d are allowed",
				m.memoryPages, lim.memoryPages)
		}
	}
}

func (m *parsed) parseGlobals(r *reader, _ *limits) {
	m.globals = r.count("globals", maxGlobals)
	for i := range m.globals {
		t := r.byte()
		if !isValueType(t) {
			r.failf("value type 0x%02x is not part of WebAssembly 2.0", t)
		}
		if mutable := r.byte() != 0; mutable {
			m.variables = append(m.variables, i)
			m.hidden = m.hidden || t == typeV128 || isRefType(t)
		}
		m.parseConst(r)
	}
}

// parseConst reads a constant expression up to and with its end.
func (m *parsed) parseConst(r *reader) {
	var in instr
	for r.err == nil {
		in.next(r)
		switch in.op {
		case opEnd:
			return
		case opRefFunc:
			m.taken[in.arg] = true
		case opI32Const, opI64Const, opF32Const, opF64Const, opGlobalGet, opRefNull, opPrefixVector:
		default:
			r.failf("instruction 0x%02x is not constant", in.op)
		}
	}
}

func (m *parsed) parseExports(r *reader, _ *limits) {
	for range r.count("exports", maxExports) {
		name := r.name()
		if len(name) > maxNameBytes {
			r.failf("the name of an export has %d bytes, at most %d are allowed",
				len(name), maxNameBytes)
			return
		}
		if _, twice := m.exports[name]; twice {
			r.failf("%q is exported twice", name)
		}
		m.exports[name] = export{kind: r.byte(), index: r.u32()}
	}
}

func (m *parsed) parseStart(r *reader, _ *limits) { m.start = int64(r.u32()) }

func (m *parsed) parseCode(r *reader, lim *limits) {
	n := r.count("function bodies", maxFunctions)
	m.bodies = make([]body, 0, n)
	for i := range n {
		s := r.sub(r.u32())
		if r.err != nil {
			return
		}
		if len(s.src) > lim.bodyBytes {
			r.failf("function %d has %d bytes, at most %d are allowed; split it",
				i+uint32(len(m.imports)), len(s.src), lim.bodyBytes)
			return
		}
		m.bodies = append(m.bodies, body{src: s.src, offset: s.base})
	}
}
