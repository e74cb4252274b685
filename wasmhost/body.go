package wasmhost

import "fmt"

// Prices in fuel. One unit is one instruction of the source, 0.2 to 0.4 ns when it spins.
const (
	bulkShift      = 4    // bulk memory instructions pay one unit for 16 bytes
	growPrice      = 4096 // memory.grow, in case the system has to map pages
	refFuncPrice   = 256  // ref.func leaves compiled code for the host and comes back
	frameBytesBase = 64
)

// function is what one pass over a body found out.
type function struct {
	body
	typ        uint32
	params     uint32
	locals     uint32 // declared, without parameters
	code       int    // offset in src of the first instruction
	localsFrom int    // offset in src of the first local declaration
	groups     uint32 // number of local declarations
	// weights are the prices of straight runs: weights[0] of the code outside of loops,
	// weights[i] of the i-th loop in order of appearance without the loops inside it.
	weights  []uint32
	calls    []uint32 // functions called, with repetitions
	results  uint32   // of calls that have several
	indirect bool     // has call_indirect
	bulk     bool     // has an instruction that is paid where it stands
	returns  bool
	depth    uint32 // price of a frame in units of call depth, 0 for functions that need none
	effort   int    // what it is to compile
}

// effort is what a function is to compile: the compiler carries each local over each edge between
// stretches of straight code, and walks edges again for others of them.
func effort(edges, locals int) int { return edges * (locals + edges/32) }

// scanAll reads all bodies once and checks the limits of each function.
func (m *parsed) scanAll(lim *limits) ([]*function, error) {
	functions, total := make([]*function, len(m.bodies)), 0
	for i := range m.bodies {
		f, err := m.scan(i, lim)
		if err != nil {
			return nil, err
		}
		functions[i] = f
		if total += f.effort; total > lim.efforts {
			return nil, fmt.Errorf("the functions have too many branches and locals " +
				"together; leave some out")
		}
	}
	return functions, nil
}

// scan reads the body of function i once and checks the limits of one function.
func (m *parsed) scan(i int, lim *limits) (*function, error) {
	f := &function{body: m.bodies[i], typ: m.functions[i], weights: make([]uint32, 1, 4)}
	f.params = uint32(len(m.types[f.typ].params))
	r := reader{src: f.src, base: f.offset}
	f.scanLocals(&r)
	f.code = r.pos
	f.weights[0] = 1 + f.locals/4
	if err := m.scanCode(f, &r, lim); err != nil {
		return nil, fmt.Errorf("function %d: %w", i+len(m.imports), err)
	}
	return f, nil
}

func (f *function) scanLocals(r *reader) {
	f.groups = r.count("local declarations", maxLocals)
	f.localsFrom = r.pos
	total := uint64(0)
	for range f.groups {
		total += uint64(r.u32())
		if t := r.byte(); !isValueType(t) {
			r.failf("value type 0x%02x is not part of WebAssembly 2.0", t)
		}
		if total > maxLocals {
			r.failf("%d locals, at most %d are allowed", total, maxLocals)
			return
		}
	}
	f.locals = uint32(total)
}

func (m *parsed) scanCode(f *function, r *reader, lim *limits) error {
	var in instr
	// open[d] is the run that code at nesting depth d belongs to.
	open := make([]uint32, 1, 16)
	blocks, branches, instructions := 0, 0, 0
	for r.err == nil && len(open) > 0 {
		in.next(r)
		instructions++
		run := open[len(open)-1]
		f.weights[run] += m.price(f, &in)
		switch in.op {
		case opBlock, opLoop, opIf:
			if blocks++; blocks > lim.blocks {
				r.failf("more than %d blocks; split the function", lim.blocks)
			}
			if len(open) > lim.nesting {
				r.failf("blocks nested deeper than %d", lim.nesting)
			}
			if in.op == opLoop {
				run = uint32(len(f.weights))
				f.weights = append(f.weights, 1)
			}
			open = append(open, run)
		case opBr, opBrIf:
			branches++
		case opBrTable:
			branches += int(in.arg) + 1
		case opEnd:
			open = open[:len(open)-1]
		case opReturn:
			f.returns = true
		}
	}
	f.effort = effort(blocks+branches, int(f.locals+f.params))
	switch {
	case r.err != nil:
	case r.pos != len(r.src):
		r.failf("bytes are left over after the end of the function")
	case f.effort > lim.effort:
		r.failf("%d blocks, %d branches and %d locals are too many together; split the function",
			blocks, branches, f.locals+f.params)
	}
	frame := frameBytesBase + 8*(f.locals+f.params) + 2*uint32(instructions) + 16*f.results
	f.depth = 1 + frame/depthUnitBytes
	return r.err
}

// price returns the static price of one instruction and notes what else matters about it.
func (m *parsed) price(f *function, in *instr) uint32 {
	m.hidden = m.hidden || in.hides()
	switch in.op {
	case opCall:
		f.calls = append(f.calls, in.arg)
		if t := m.typeOf(in.arg); t != nil {
			return f.priceCall(t)
		}
	case opCallIndirect:
		f.indirect = true
		if uint64(in.arg) < uint64(len(m.types)) {
			return f.priceCall(&m.types[in.arg])
		}
	case opMemoryGrow:
		f.bulk = true
	case opRefFunc:
		m.taken[in.arg] = true
		return refFuncPrice
	}
	if _, ok := in.bulk(); ok {
		f.bulk = true
	}
	return 1
}

// priceCall returns the price of a call. Several results are noted, since the size of a frame goes
// by its instructions, all others of which have one.
func (f *function) priceCall(t *funcType) uint32 {
	if len(t.results) > 1 {
		f.results += uint32(len(t.results))
	}
	return 1 + uint32(len(t.params)+len(t.results))
}
