package wasmhost

import "context"

// FuelGlobal is the exported i64 of a metered module that a host sets before each call; a call that
// makes it negative traps.
const FuelGlobal = exportFuel

// Metered checks a module that is not of the Go profile and returns it as a host compiles it. It is
// for measurements of what metering costs, which run a module with and without: a host rewrites
// what it loads itself.
func Metered(ctx context.Context, wasm []byte) ([]byte, error) {
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
