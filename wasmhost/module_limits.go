package wasmhost

// ModuleLimits are the limits of an instance of a module.
type ModuleLimits struct {
	MemoryPages uint32 // of 64 KiB
	StateBytes  int    // of all groups together
	ResultBytes int    // of all groups together
	// Fuel of one call: of those that begin an instance; of any other, and that call's price of a
	// row, of a byte of payload and of a byte of state.
	FuelStart, FuelCall, FuelRow, FuelByte, FuelStateByte int64
}

// Limits returns the limits of an instance of the module.
func (m *Module) Limits() ModuleLimits {
	e := m.entry
	scale := int64(1)
	if e.lim.goProfile {
		scale = goFuelScale * goFuelFactor
	}
	return ModuleLimits{MemoryPages: e.lim.memoryPages, StateBytes: e.host.opt.StateBytes,
		ResultBytes: e.host.opt.ResultBytes, FuelStart: e.startFuel(),
		FuelCall: scale * fuelBase, FuelRow: scale * fuelPerRecord, FuelByte: scale * fuelPerByte,
		FuelStateByte: scale * fuelPerState}
}
