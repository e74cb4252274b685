package wasmhost

// parseElements reads element segments of all eight kinds and notes which functions can be
// reached through a table.
func (m *parsed) parseElements(r *reader, _ *limits) {
	total := uint32(0)
	for range r.count("element segments", maxSegments) {
		flags := r.u32()
		if flags > 7 {
			r.failf("element segment of kind %d is not part of WebAssembly 2.0", flags)
			return
		}
		passive, explicit, expressions := flags&1 != 0, flags&2 != 0, flags&4 != 0
		if !passive {
			if explicit {
				r.u32() // table
			}
			m.parseConst(r)
		}
		if passive || explicit {
			r.byte() // element kind or reference type
		}
		n := r.count("elements", maxTableElements)
		if total += n; total > maxTableElements {
			r.failf("%d elements, at most %d are allowed", total, maxTableElements)
			return
		}
		for range n {
			if expressions {
				m.parseConst(r)
			} else {
				m.taken[r.u32()] = true
			}
		}
	}
}

func (m *parsed) parseData(r *reader, lim *limits) {
	for range r.count("data segments", lim.segments) {
		switch flags := r.u32(); flags {
		case 0:
			m.parseConst(r)
		case 1:
		case 2:
			r.u32()
			m.parseConst(r)
		default:
			r.failf("data segment of kind %d is not part of WebAssembly 2.0", flags)
			return
		}
		r.bytes(r.u32())
	}
}

// typeOf returns the type of a function index, nil when there is none.
func (m *parsed) typeOf(function uint32) *funcType {
	var t uint32
	switch n := uint32(len(m.imports)); {
	case function < n:
		t = m.imports[function].typ
	case uint64(function-n) < uint64(len(m.functions)):
		t = m.functions[function-n]
	default:
		return nil
	}
	return &m.types[t]
}
