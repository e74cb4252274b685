package wasmhost

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
)

// Calls that leave many results need as much stack as many instructions.
func TestLargeFrames(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	h := newTestHost(t, Options{})
	fails(t, h, "a chain", Fuel, "calls nest too deep", func(a *asm) {
		source := uint32(len(a.funcs))
		some := strings.Repeat(i64, 32)
		a.funcs = append(a.funcs, asmFunc{results: some, code: bytes.Repeat(i64c(1), 32)},
			asmFunc{params: some})
		for i := range uint32(60) {
			a.funcs = append(a.funcs, asmFunc{code: cat(call(source+3+i),
				bytes.Repeat(call(source), 99), bytes.Repeat(call(source+1), 99))})
		}
		a.funcs = append(a.funcs, asmFunc{})
		a.replace(exportInit, "", cat(call(source+2), i32c(0)))
	})
}
