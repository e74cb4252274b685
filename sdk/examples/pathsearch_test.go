package examples

import (
	"fmt"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// groupOf is the path of a device: 20 on each of ten floors of a building, 50 buildings in a city.
func groupOf(device int) string {
	return fmt.Sprintf("city-%d/building-%d/floor-%d", device/10_000, device/200%50, device/20%10)
}

// TestPathsOfMany counts the readings of a city, a building and a floor.
func TestPathsOfMany(t *testing.T) {
	d := open()
	defer d.close()
	d.places(3000, 1, 1)
	f := func(selector string, want uint64) {
		t.Helper()
		if got := d.count(selected(selector, reading)); got != want {
			t.Errorf("%s: %d readings, want %d", selector, got, want)
		}
	}
	f("group^=city-0/", 3000)
	f("group^=city-0/building-7/", 200)
	f("group=city-0/building-7/floor-3", 20)
	f("group^=city-0/building-15/", 0)
	f("group^=city-0/building-1", 1200) // building-10 to building-14, too
}

// BenchmarkPaths counts the readings of a building with 200 of a million devices: by a prefix of
// their path, by an exact list of its floors, and by the range of ids that a nested set would be.
func BenchmarkPaths(b *testing.B) {
	d := open()
	defer d.close()
	d.places(1_000_000, 200, 1)
	const building = 7_000 // its first device
	var floors string
	for floor := range 10 {
		if floor > 0 {
			floors += " or "
		}
		floors += fmt.Sprintf("group=%q", groupOf(building+20*floor))
	}
	ids := of(reading)
	ids.Box[record.MID] = record.RangeSet{{From: firstPlaced + building,
		To: firstPlaced + building + 200}}
	count := func(q record.Query) func() {
		return func() {
			if n := d.count(q); n != 200 {
				b.Fatalf("%d readings", n)
			}
		}
	}
	inTurns(b, way{"prefix", count(selected("group^=city-0/building-35/", reading))},
		way{"list-of-floors", count(selected(floors, reading))}, way{"range-of-ids", count(ids)})
}
