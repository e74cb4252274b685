package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Sums of a building and of its floors: the path of each device is its group, and a prefix of it
// chooses everything below.
func Example_materialisedPaths() {
	const energy = 1
	d := open()
	defer d.close()
	var meters []registry.Description
	for i := range 60 {
		meters = append(meters, registry.Description{Name: fmt.Sprint("m", i),
			Group: fmt.Sprintf("oulu/building-%d/floor-%d", i/30, i/10%3)})
	}
	var b record.Batch
	for _, mid := range d.describe(meters...) {
		b.Append(key(mid, energy, time.Hour), number(1))
	}
	d.put(&b)

	for _, selector := range []string{"group^=oulu/", "group^=oulu/building-1/",
		"group=oulu/building-1/floor-2"} {
		fmt.Println(selector, d.groups(selected(selector, energy), "stats")[0].value["sum"])
	}

	floors := selected("group^=oulu/building-1/", energy)
	floors.GroupBy.Key = "group[3]"
	for _, floor := range d.groups(floors, "stats") {
		fmt.Println(floor.Values[0], floor.value["sum"])
	}
	// Output:
	// group^=oulu/ 60
	// group^=oulu/building-1/ 30
	// group=oulu/building-1/floor-2 10
	// oulu/building-1/floor-0 10
	// oulu/building-1/floor-1 10
	// oulu/building-1/floor-2 10
}
