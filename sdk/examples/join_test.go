package examples

import (
	"context"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// A join in the application, with two round trips, and the same question with a selector.
func Example_join() {
	const temperature = 1
	d := open()
	defer d.close()
	var thermometers []registry.Description
	for i := range 40 {
		thermometers = append(thermometers, registry.Description{Name: fmt.Sprint("t", i),
			Type: "thermometer", Attributes: attributes("floor", fmt.Sprint(i%4))})
	}
	var b record.Batch
	for i, mid := range d.describe(thermometers...) {
		b.Append(key(mid, temperature, time.Hour), number(float64(i)))
	}
	d.put(&b)

	devices := must(d.SelectDevices(context.Background(), tenant, "floor=2"))
	joined := of(temperature)
	for _, device := range devices {
		joined.Box[record.MID] = append(joined.Box[record.MID], record.At(device.MID))
	}
	fmt.Println("in two steps:", d.count(joined))

	fmt.Println("in one:", d.count(selected("floor=2", temperature)))
	// Output:
	// in two steps: 10
	// in one: 10
}
