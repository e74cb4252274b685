package examples

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/sdk/registry"
)

// A grid in which each device names the one that feeds it: one question for each level finds all
// below a device.
func Example_adjacencyLists() {
	d := open()
	defer d.close()
	feeder := map[string]string{"substation": "", "t1": "substation", "t2": "substation",
		"m1": "t1", "m2": "t1", "m3": "t2"}
	for name, from := range feeder {
		device := registry.Description{Name: name}
		if from != "" {
			device.Attributes = attributes("feeder", from)
		}
		d.describe(device)
	}

	for level := []string{"substation"}; len(level) > 0; {
		fmt.Println(strings.Join(level, " "))
		level = d.fedBy(level)
	}
	// A cable is moved: one record.
	d.describeFrom(day(), registry.Description{Name: "t2", Attributes: attributes("feeder", "t1")})
	fmt.Println("t1 feeds now", strings.Join(d.fedBy([]string{"t1"}), " "))
	// Output:
	// substation
	// t1 t2
	// m1 m2 m3
	// t1 feeds now m1 m2 t2
}

// fedBy returns the names of the devices that some devices feed, sorted.
func (d *db) fedBy(names []string) (fed []string) {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	found := must(d.SelectDevices(context.Background(), tenant,
		"feeder in ("+strings.Join(quoted, ", ")+")"))
	for _, device := range found {
		fed = append(fed, device.Name)
	}
	slices.Sort(fed)
	return fed
}
