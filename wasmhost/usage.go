package wasmhost

// Usage is what an instance used so far.
type Usage struct {
	Calls       uint64
	FuelUsed    uint64
	MemoryBytes uint64
	// The call that came closest to its limit of fuel: its export, what it used, what it had.
	PeakExport string
	PeakFuel   uint64
	PeakBudget uint64
}

// note adds a call to the usage.
func (u *Usage) note(export string, used, budget uint64) {
	u.Calls++
	u.FuelUsed += used
	if float64(used)*float64(u.PeakBudget) >= float64(u.PeakFuel)*float64(budget) {
		u.PeakExport, u.PeakFuel, u.PeakBudget = export, used, budget
	}
}

func (g *guest) usageNow() Usage {
	u := g.usage
	u.MemoryBytes = uint64(g.memory.Size())
	return u
}

// Usage returns what the instance used so far. Not beside another method, not after Close.
func (a *Aggregate) Usage() Usage { return a.guest.usageNow() }

// Usage returns what the instance used so far. Not beside another method, not after Close.
func (f *Filter) Usage() Usage { return f.guest.usageNow() }
