package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// A tree whose devices are numbered so that each subtree is a range. A range of ids is as fast as a
// prefix, but a device that is added to a building would have to renumber all behind it.
func Example_nestedSets() {
	const energy = 1
	d := open()
	defer d.close()
	var meters []registry.Description
	for i := range 40 {
		meters = append(meters, registry.Description{Name: fmt.Sprint("m", i),
			Group: fmt.Sprintf("oulu/building-%d", i/10)})
	}
	ids := d.describe(meters...) // they follow each other, and so do those of a building
	var b record.Batch
	for _, mid := range ids {
		b.Append(key(mid, energy, time.Hour), number(1))
	}
	d.put(&b)

	subtree := of(energy)
	subtree.Box[record.MID] = record.RangeSet{{From: ids[10], To: ids[20]}}
	path := selected("group=oulu/building-1", energy)
	fmt.Println("range:", d.count(subtree), "path:", d.count(path))

	b.Reset()
	b.Append(key(d.describe(registry.Description{Name: "new", Group: "oulu/building-1"})[0], energy,
		time.Hour), number(1))
	d.put(&b)
	fmt.Println("range:", d.count(subtree), "path:", d.count(path))
	// Output:
	// range: 10 path: 10
	// range: 10 path: 11
}
