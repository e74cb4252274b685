package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// One copy of the readings answers by device, by quantity, by time, by arrival, by value and by
// what is known of devices.
func Example_indexTable() {
	const temperature, humidity = 1, 2
	d := open()
	defer d.close()
	d.quantity(client.Quantity{MOID: temperature, Name: "temperature", Type: plugin.F64})
	var devices []registry.Description
	for i := range 20 {
		devices = append(devices, registry.Description{Name: fmt.Sprint("t", i),
			Attributes: attributes("city", []string{"oulu", "kemi"}[i%2])})
	}
	ids := d.describe(devices...)
	var first, second record.Batch
	for i := range 24 {
		for k, mid := range ids {
			at := time.Duration(i) * time.Hour
			first.Append(key(mid, temperature, at), number(float64(k)))
			second.Append(key(mid, humidity, at), number(50))
		}
	}
	between := d.put(&first)
	d.put(&second)

	by := of()
	by.Box[record.MID] = record.RangeSet{record.At(ids[7])}
	fmt.Println("by device:", d.count(by))
	fmt.Println("by quantity:", d.count(of(humidity)))
	by = of()
	by.Box[record.Cap] = record.RangeSet{{From: key(0, 0, 6*time.Hour).CapNs,
		To: key(0, 0, 8*time.Hour).CapNs}}
	fmt.Println("by time:", d.count(by))
	by = of()
	by.Box[record.Acq] = record.RangeSet{{From: between, To: record.Acq.Max()}}
	fmt.Println("by arrival:", d.count(by))
	by = of(temperature)
	by.Where = "value >= 18"
	fmt.Println("by value:", d.count(by))
	fmt.Println("by what is known of devices:", d.count(selected("city=kemi", temperature)))
	// Output:
	// by device: 48
	// by quantity: 480
	// by time: 80
	// by arrival: 480
	// by value: 48
	// by what is known of devices: 240
}
