package wasmhost

import (
	"cmp"
	"slices"
)

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

// maxJoinedZeros is up to how many zeros between two segments of data are cheaper than a segment.
const maxJoinedZeros = 64

// dataSegment is one that is copied into memory when an instance is made.
type dataSegment struct {
	at      uint64
	content []byte
}

func (s *dataSegment) end() uint64 { return s.at + uint64(len(s.content)) }

// joinedData returns the data section with one segment for those that lie close together. Go's
// linker starts a segment after each few zeros, and the runtime takes 35 ns for each in every
// instance: a millisecond for an empty program.
func (m *parsed) joinedData() []byte {
	section := m.sections[secData]
	if section == nil || m.sections[secDataCount] != nil { // with a count, code may name segments
		return section
	}
	var all []dataSegment
	r := reader{src: section}
	for range r.u32() {
		plain := r.u32() == 0 && r.byte() == opI32Const
		at := uint64(uint32(r.signed(32)))
		plain = plain && r.byte() == opEnd
		content := r.bytes(r.u32())
		if !plain || r.err != nil {
			return section
		}
		all = append(all, dataSegment{at, slices.Clip(content)}) // what is appended goes elsewhere
	}
	slices.SortStableFunc(all, func(a, b dataSegment) int { return cmp.Compare(a.at, b.at) })
	joined := all[:0]
	var zeros [maxJoinedZeros]byte
	for _, s := range all {
		if len(joined) > 0 {
			last := &joined[len(joined)-1]
			if s.at < last.end() { // what overlaps depends on the order
				return section
			}
			if gap := s.at - last.end(); gap <= maxJoinedZeros {
				last.content = append(append(last.content, zeros[:gap]...), s.content...)
				continue
			}
		}
		joined = append(joined, s)
	}
	out := appendU32(nil, uint32(len(joined)))
	for _, s := range joined {
		out = appendSigned(append(out, 0, opI32Const), int64(int32(uint32(s.at))))
		out = append(appendU32(append(out, opEnd), uint32(len(s.content))), s.content...)
	}
	return out
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
