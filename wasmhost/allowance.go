package wasmhost

// Allowance is what an instance of a module may use, in numbers.
type Allowance struct {
	MemoryPages uint32 // of 64 KiB
	StateBytes  int    // of all groups together
	ResultBytes int    // of all groups together
	// Fuel of one call: of those that begin an instance; of any other, and that call's price of a
	// row, of a byte of payload and of a byte of state.
	FuelStart, FuelCall, FuelRow, FuelByte, FuelStateByte int64
}

// Allowance returns what an instance of the module may use.
func (m *Module) Allowance() Allowance {
	e := m.entry
	scale := int64(1)
	if e.lim.goProfile {
		scale = goFuelScale * goFuelRoom
	}
	return Allowance{MemoryPages: e.lim.memoryPages, StateBytes: e.host.opt.StateBytes,
		ResultBytes: e.host.opt.ResultBytes, FuelStart: e.startFuel(),
		FuelCall: scale * fuelBase, FuelRow: scale * fuelPerRecord, FuelByte: scale * fuelPerByte,
		FuelStateByte: scale * fuelPerState}
}
