package wasmhost

// The runtime allocates a function object with a stack of 10 KB for each export that is called,
// which took most of the start of an instance. So the instrumenter adds one function that calls all
// others, the trampoline.

// trampolineArgs is the number of arguments that the trampoline forwards: the most of any export.
const trampolineArgs = 4

// startNumber is the number of the start function. The number of an export is its index in
// signatures.
const startNumber = len(signatures)

// trampolineIndex is the function index of the trampoline, after all others.
func (m *parsed) trampolineIndex() uint32 { return uint32(len(m.imports) + len(m.functions)) }

// appendTrampoline writes a function that takes the number of an export and arguments. It forwards
// as many as the export takes, and returns the result in 64 bits, 0 for an export without one. The
// host never passes the number of a missing export.
func (m *parsed) appendTrampoline(dst []byte) []byte {
	dst = append(dst, 0) // no locals
	for range startNumber + 1 {
		dst = append(dst, opBlock, typeEmpty)
	}
	dst = append(dst, opLocalGet, 0, opBrTable)
	dst = appendU32(dst, uint32(startNumber))
	for i := range startNumber + 1 { // the last one is the default
		dst = appendU32(dst, uint32(i))
	}
	for _, s := range signatures {
		dst = append(dst, opEnd)
		if e, ok := m.exports[s.name]; ok && m.is(e, &s) {
			dst = appendForward(dst, e.index, &s)
		} else {
			dst = append(dst, opUnreachable)
		}
	}
	dst = append(dst, opEnd)
	if m.start >= 0 {
		dst = appendForward(dst, uint32(m.start), &signature{})
	} else {
		dst = append(dst, opUnreachable)
	}
	return append(dst, opEnd)
}

// appendForward calls a function and returns its result.
func appendForward(dst []byte, function uint32, s *signature) []byte {
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

// trampolineType is the type of the trampoline, encoded for the type section.
func trampolineType() []byte {
	b := []byte{typeFunc, 1 + trampolineArgs}
	for range 1 + trampolineArgs {
		b = append(b, typeI32)
	}
	return append(b, 1, typeI64)
}

// is reports whether an export is a function of the signature.
func (m *parsed) is(e export, s *signature) bool {
	t := m.typeOf(e.index)
	return e.kind == kindFunc && t != nil && t.is(s.params, s.results)
}

// exportNumber is the number of an export.
func exportNumber(name string) uint64 {
	for i := range signatures {
		if signatures[i].name == name {
			return uint64(i)
		}
	}
	return uint64(startNumber)
}
