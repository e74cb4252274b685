package wasmhost

import "testing"

func TestUsage(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(nil))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	before := a.Usage()
	if err := a.Add(t.Context(), values(1, 2, 3), nil, 1); err != nil {
		t.Fatal(err)
	}
	after := a.Usage()
	if err := a.Close(); err != nil { // then the host knows of all calls
		t.Fatal(err)
	}
	if before.Calls == 0 || after.Calls <= before.Calls || after.FuelUsed <= before.FuelUsed ||
		after.MemoryBytes%65536 != 0 || after.MemoryBytes == 0 ||
		after.FuelUsed > h.Stats().FuelUsed {
		t.Errorf("%+v, then %+v", before, after)
	}
	var u Usage
	u.note("a", 10, 100)
	u.note("b", 20, 1000)
	u.note("c", 3, 10)
	u.note("d", 290, 1000)
	if u.PeakExport != "c" || u.PeakFuel != 3 || u.PeakBudget != 10 || u.FuelUsed != 323 {
		t.Errorf("%+v", u)
	}
}
