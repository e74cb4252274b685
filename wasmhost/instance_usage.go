package wasmhost

// Usage is what an instance has used so far.
type Usage struct {
	Calls       uint64
	FuelUsed    uint64
	MemoryBytes uint64
	// The call that came closest to its fuel budget: its export, the fuel it used, its budget.
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

// Usage returns what the instance has used so far. It must not run concurrently with another
// method, nor after Close.
func (a *Aggregate) Usage() Usage { return a.guest.usageNow() }

// Usage returns what the instance has used so far. It must not run concurrently with another
// method, nor after Close.
func (f *Filter) Usage() Usage { return f.guest.usageNow() }
