package wasmhost

// To the runtime, each export that is called is a function object with a stack of 10 KB. An
// instance whose exports each had one took most of its time to make them. So the instrumenter adds
// a function that calls all others: the door.

// doorArgs is how many arguments the door hands on, those of the export with the most.
const doorArgs = 4

// doorStart is the number of the start function at the door. Exports have their place among the
// signatures.
const doorStart = len(signatures)

// doorIndex is the function index of the door: it comes after all others.
func (m *parsed) doorIndex() uint32 { return uint32(len(m.imports) + len(m.functions)) }

// appendDoor writes a function that takes the number of an export and its arguments, of which it
// hands on as many as the export takes, and returns its result in 64 bits, 0 of an export without
// one. The host never asks for what is not there.
func (m *parsed) appendDoor(dst []byte) []byte {
	dst = append(dst, 0) // no locals
	for range doorStart + 1 {
		dst = append(dst, opBlock, typeEmpty)
	}
	dst = append(dst, opLocalGet, 0, opBrTable)
	dst = appendU32(dst, uint32(doorStart))
	for i := range doorStart + 1 { // the last one is the default
		dst = appendU32(dst, uint32(i))
	}
	for _, s := range signatures {
		dst = append(dst, opEnd)
		if e, ok := m.exports[s.name]; ok && m.is(e, &s) {
			dst = appendPassage(dst, e.index, &s)
		} else {
			dst = append(dst, opUnreachable)
		}
	}
	dst = append(dst, opEnd)
	if m.start >= 0 {
		dst = appendPassage(dst, uint32(m.start), &signature{})
	} else {
		dst = append(dst, opUnreachable)
	}
	return append(dst, opEnd)
}

// appendPassage calls a function and returns what it does.
func appendPassage(dst []byte, function uint32, s *signature) []byte {
	for i := range len(s.params) {
		dst = append(dst, opLocalGet, byte(1+i))
	}
	dst = appendU32(append(dst, opCall), function)
	switch s.results {
	case "":
		dst = append(dst, opI64Const, 0)
	case i32:
		dst = append(dst, opI64ExtendU)
	}
	return append(dst, opReturn)
}

// doorType is the type of the door as the type section has it.
func doorType() []byte {
	b := []byte{typeFunc, 1 + doorArgs}
	for range 1 + doorArgs {
		b = append(b, typeI32)
	}
	return append(b, 1, typeI64)
}

// is reports whether an export is a function of the signature.
func (m *parsed) is(e export, s *signature) bool {
	t := m.typeOf(e.index)
	return e.kind == kindFunc && t != nil && t.is(s.params, s.results)
}

// doorNumber is the place of an export at the door.
func doorNumber(name string) uint64 {
	for i := range signatures {
		if signatures[i].name == name {
			return uint64(i)
		}
	}
	return uint64(doorStart)
}
