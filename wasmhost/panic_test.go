package wasmhost

import (
	"errors"
	"strings"
	"testing"
)

// trapError is the error of a plugin whose add ends as trap does.
func trapError(t *testing.T, h *Host, wasm []byte) *Error {
	t.Helper()
	var e *Error
	if err := use(t.Context(), h, wasm); !errors.As(err, &e) || e.Export != exportAdd {
		t.Fatalf("error %v, want one of %s", err, exportAdd)
	}
	m := mustLoad(t, h, good(nil))
	defer m.Close()
	checkGood(t, m)
	return e
}

// A panic leaves its text and traps. What pentad_error does then is bounded, and a trap stays one.
func TestPanics(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(name, want string, trap, message code) {
		t.Helper()
		e := trapError(t, h, good(func(a *asm) {
			a.data[errorAt] = []byte("stale text")
			a.replace(exportAdd, "", trap)
			a.replace(exportError, "", message)
		}))
		if e.Kind != Trap || e.Message != want || e.FuelUsed >= errorFuel {
			t.Errorf("%s: %+v, want the message %q", name, e, want)
		}
	}
	text := i64c(errorAt<<32 | 10)
	panics := cat(store(0, i32c(errorAt), i32c(0x65646f63 /* code */)), ops(opUnreachable))
	f("text", "codee text", panics, text)
	f("part of it", "code", panics, i64c(errorAt<<32|4))
	f("outside", "", panics, i64c(-1))
	f("no text", "", panics, i64c(0))
	f("spins", "", panics, spin)
	f("traps", "", panics, ops(opUnreachable))
	f("another trap", "", cat(i32c(1), i32c(0), ops(i32DivS)), text)
	e := trapError(t, h, good(func(a *asm) {
		a.replace(exportAdd, "", panics)
		a.remove(exportError)
	}))
	if e.Kind != Trap || e.Message != "" {
		t.Errorf("without %s: %+v", exportError, e)
	}
}

// nameSection is the custom section that names functions.
func nameSection(names map[uint32]string) []byte {
	var entries []code
	for i := range uint32(64) {
		if name, ok := names[i]; ok {
			entries = append(entries, append(appendU32(nil, i), named(name)...))
		}
	}
	const functionNames = 1
	functions := vector(entries)
	body := append(named("name"), functionNames)
	body = append(appendU32(body, uint32(len(functions))), functions...)
	return append(appendU32([]byte{secCustom}, uint32(len(body))), body...)
}

// Errors name the functions that led to a trap, as far as the module says how they are called.
func TestTrapNamesFunctions(t *testing.T) {
	const first = 10 // index of the first function beside the exports of the plugin
	h := newTestHost(t, Options{})
	chain := good(func(a *asm) {
		a.replace(exportAdd, "", cat(call(first), i32c(0)))
		for i := range uint32(4) {
			a.funcs = append(a.funcs, asmFunc{code: call(first + 1 + i)})
		}
		a.funcs = append(a.funcs, asmFunc{code: ops(opUnreachable)})
	})
	f := func(names map[uint32]string, want string) {
		t.Helper()
		e := trapError(t, h, append(append([]byte(nil), chain...), nameSection(names)...))
		if _, place, _ := strings.Cut(e.Reason, " in "); place != want {
			t.Errorf("%v: in %q, want %q", names, place, want)
		}
	}
	f(nil, "$14, called by $13, $12, $11")
	f(map[uint32]string{11: "mean::add", 13: "panic_fmt", 14: "panic"},
		"panic, called by panic_fmt, $12, mean::add")
	f(map[uint32]string{14: "a\x00\x1b[31mb"}, "a\ufffd\ufffd[31mb, called by $13, $12, $11")
}

// The trampoline, through which the host comes, is not among them.
func TestTrapDoesNotNameTheTrampoline(t *testing.T) {
	h := newTestHost(t, Options{})
	e := trapError(t, h, good(func(a *asm) { a.replace(exportAdd, "", ops(opUnreachable)) }))
	if want := "unreachable in $6"; e.Reason != want {
		t.Errorf("%s, want %s", e.Reason, want)
	}
}

// What a program of the Go profile prints while it fails is what its error says, however much it
// printed before.
func TestPrintedText(t *testing.T) {
	h := newTestHost(t, Options{GoProfile: true})
	const vectorAt, textAt = 3072, 1300
	print := func(at, size int32) code {
		return cat(store(0, i32c(vectorAt), i32c(at)), store(4, i32c(vectorAt), i32c(size)),
			i32c(2), i32c(vectorAt), i32c(1), i32c(vectorAt+8), call(0), ops(dropOp))
	}
	for _, before := range []int32{0, 100, maxLogBytes + 1} {
		e := trapError(t, h, good(func(a *asm) {
			a.imports = []importFunc{{wasiModule, "fd_write", 8}} // of the type of pentad_finish
			a.data[textAt] = []byte("panic: text" + strings.Repeat(".", maxLogBytes*3/4))
			a.replace(exportInit, "", cat(print(heapAt, before), initCode()))
			a.replace(exportAdd, "", cat(print(textAt, 11+maxLogBytes*3/4), ops(opUnreachable)))
		}))
		if e.Kind != Trap || !strings.Contains(e.Message, "panic: text.") {
			t.Errorf("%d bytes before: %+v, want the message of the panic", before, e)
		}
	}
}
