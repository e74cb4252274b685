package demodata

import (
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

func TestPlan(t *testing.T) {
	p := Plan{Meters: 60, Days: 4, End: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
	first := map[record.Key]float64{}
	kinds := map[Kind]int{}
	var behind time.Duration
	newest := int64(0)
	for r := range p.All() {
		kinds[r.Kind]++
		old, seen := first[r.Key]
		if seen != (r.Kind == Correction) || (seen && old == r.Value) {
			t.Fatalf("%+v: seen %t with %g", r, seen, old)
		}
		first[r.Key] = r.Value
		newest = max(newest, r.Key.CapNs)
		behind = max(behind, time.Duration(newest-r.Key.CapNs))
		if r.Key.CapNs < p.Start().UnixNano() || r.Key.CapNs >= p.End.UnixNano() ||
			len(r.AppendPayload(nil)) != 8 || r.Key.CID != CID(int(r.Key.MID)) {
			t.Fatalf("%+v", r)
		}
	}
	if len(first) != p.Base() || p.Base() != 60*3*4*96 {
		t.Errorf("%d readings, want %d", len(first), p.Base())
	}
	share := func(kind Kind, want float64) {
		t.Helper()
		if got := float64(kinds[kind]) / float64(p.Base()); got < 0.9*want || got > 1.1*want {
			t.Errorf("kind %d: share %.4f, want about %.4f", kind, got, want)
		}
	}
	share(Late, 0.02)
	share(Correction, 0.01)
	if behind < time.Hour || behind > 25*time.Hour {
		t.Errorf("readings come up to %s late", behind)
	}
	stopped := 0
	for range p.All() {
		if stopped++; stopped == 1000 {
			break
		}
	}
}

func BenchmarkAll(b *testing.B) {
	p := Plan{Meters: 500, Days: b.N/(500*3*96) + 1, End: time.Unix(1_700_000_000, 0)}
	n := 0
	b.ReportAllocs()
	for range p.All() {
		if n++; n == b.N {
			break
		}
	}
}

// TestDevices: each meter has a name of its own in its tenant and a description that can be stored,
// and 25 are in a building.
func TestDevices(t *testing.T) {
	p := Plan{Meters: 130}
	names, buildings := map[string]int32{}, map[string]int{}
	for i, meters := range p.Tenants() {
		for _, meter := range meters {
			d := Device(meter)
			if err := d.Check(); err != nil || CID(meter) != int32(1+i) {
				t.Errorf("meter %d of tenant %d: %v", meter, 1+i, err)
			}
			names[d.Name] = CID(meter)
			path := strings.Split(d.Group, "/")
			buildings[strings.Join(path[:2], "/")]++
			if v, _ := d.Value("floor"); path[2] != "floor-"+v.String() {
				t.Errorf("meter %d is in %s, on floor %s", meter, d.Group, v)
			}
		}
	}
	if len(names) != 130 || len(buildings) != 6 || buildings["town-2/building-3"] != 25 {
		t.Errorf("%d names, buildings: %v", len(names), buildings)
	}
}
