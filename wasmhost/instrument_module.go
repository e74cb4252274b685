package wasmhost

import "context"

// FuelGlobal is the exported i64 of an instrumented module that a host sets before each call; a
// call that makes it negative traps.
const FuelGlobal = exportFuel

// Instrument checks a module that is not of the Go profile and returns it instrumented, as a host
// compiles it. It serves measurements of the cost of instrumentation; a host instruments what it
// loads by itself.
func Instrument(ctx context.Context, wasm []byte) ([]byte, error) {
	defaults, err := Options{}.withDefaults()
	if err != nil {
		return nil, err
	}
	lim := pluginLimits(defaults.MemoryPages)
	if err := lim.checkSize(wasm); err != nil {
		return nil, err
	}
	m, err := parseModule(wasm, &lim)
	if err != nil {
		return nil, err
	}
	if _, err := m.checkExports(); err != nil {
		return nil, err
	}
	functions, err := m.scanAll(&lim)
	if err != nil {
		return nil, err
	}
	if err := validate(ctx, wasm, &lim); err != nil {
		return nil, err
	}
	return m.instrument(functions, fuelStart, maxDepth).wasm, nil
}
