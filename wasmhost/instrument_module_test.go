package wasmhost

import (
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// TestMetered wants what a host runs: an endless loop ends when the fuel does, and what a host
// refuses is refused.
func TestMetered(t *testing.T) {
	plain := good(func(a *asm) { a.replace(exportAdd, "", spin) })
	metered, err := Instrument(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigCompiler())
	defer r.Close(t.Context())
	m, err := r.Instantiate(t.Context(), metered)
	if err != nil {
		t.Fatal(err)
	}
	fuel := m.ExportedGlobal(FuelGlobal).(api.MutableGlobal)
	fuel.Set(1000)
	if _, err := m.ExportedFunction("pentad_add").Call(t.Context(), 0, 0); err == nil ||
		int64(fuel.Get()) >= 0 {
		t.Errorf("%v with %d units of fuel left", err, int64(fuel.Get()))
	}
	unfinished := good(func(a *asm) { a.remove(exportInit) })
	for _, wasm := range [][]byte{nil, plain[:len(plain)/2], unfinished} {
		if _, err := Instrument(t.Context(), wasm); err == nil {
			t.Errorf("%d bytes that are no plugin were metered", len(wasm))
		}
	}
}
