package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Temperatures that were measured in a rectangle by a van that drove through it: its places are
// readings, too.
func Example_moving() {
	const temperature, location = 1, 2
	d := open()
	defer d.close()
	d.quantity(client.Quantity{MOID: temperature, Name: "temperature", Type: plugin.F64})
	d.quantity(client.Quantity{MOID: location, Name: "location", Type: plugin.Struct,
		Fields: []client.QuantityField{{Name: "lat", Type: plugin.F64},
			{Name: "lon", Type: plugin.F64, Offset: 8}}})
	van := d.describe(registry.Description{Name: "van", Type: "logger"})[0]
	var b record.Batch
	for i := range 10 { // northwards, a degree each hour
		at := time.Duration(i) * time.Hour
		b.Append(key(van, location, at), append(number(60+float64(i)), number(25.5)...))
		b.Append(key(van, temperature, at+30*time.Minute), number(float64(-i)))
	}
	d.put(&b)

	q := selected("type=logger, within(64.5,25,67.5,26)", temperature)
	q.Moving = "location"
	for _, r := range d.records(q) {
		fmt.Println(time.Duration(r.CapNs-day().UnixNano()), float(r.Payload, 0))
	}
	// Output:
	// 5h30m0s -5
	// 6h30m0s -6
	// 7h30m0s -7
}
