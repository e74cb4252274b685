package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Devices by country, city and building, with any part of the key left open.
func Example_compositeKeyIndex() {
	const temperature = 1
	d := open()
	defer d.close()
	var b record.Batch
	for i, path := range []string{"fi/oulu/b1", "fi/oulu/b1", "fi/oulu/b2", "fi/kemi/b1",
		"se/lulea/b1"} {
		mid := d.describe(registry.Description{Name: fmt.Sprint("t", i), Group: path,
			Type: []string{"thermometer", "valve"}[i%2]})[0]
		b.Append(key(mid, temperature, time.Hour), number(float64(i)))
	}
	d.put(&b)

	for _, selector := range []string{"group^=fi/", "group^=fi/oulu/", "group=fi/oulu/b1",
		"type=valve", "type=thermometer, group^=fi/oulu/"} {
		fmt.Println(selector, d.count(selected(selector, temperature)))
	}
	// Output:
	// group^=fi/ 4
	// group^=fi/oulu/ 3
	// group=fi/oulu/b1 2
	// type=valve 2
	// type=thermometer, group^=fi/oulu/ 2
}
