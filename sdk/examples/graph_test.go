package examples

import (
	"context"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// What flows through each device of a grid: the node adds up each meter, and the program passes the
// sums from meters to transformers to the substation.
func Example_graphProcessing() {
	const energy = 1
	d := open()
	defer d.close()
	feeder := map[string]string{"t1": "substation", "t2": "substation", "m1": "t1", "m2": "t1",
		"m3": "t2"}
	name := map[int64]string{}
	var b record.Batch
	for device, from := range feeder {
		mid := d.describe(registry.Description{Name: device,
			Attributes: attributes("feeder", from)})[0]
		name[mid] = device
		for hour := range 24 {
			if device[0] == 'm' {
				b.Append(key(mid, energy, time.Duration(hour)*time.Hour), number(0.25))
			}
		}
	}
	d.put(&b)

	// Two questions: the edges of the graph, and the sum of each meter.
	edge := map[string]string{}
	for _, device := range must(d.SelectDevices(context.Background(), tenant, "")) {
		edge[device.Name] = device.Attributes["feeder"].Text()
	}
	q := of(energy)
	q.GroupBy.MID = true
	flow, message := map[string]float64{}, map[string]float64{}
	for _, meter := range d.groups(q, "stats") {
		message[name[meter.MID]] = meter.value["sum"].(float64)
	}
	for len(message) > 0 { // a step of all devices that got something
		next := map[string]float64{}
		for device, kWh := range message {
			flow[device] += kWh
			if edge[device] != "" {
				next[edge[device]] += kWh
			}
		}
		message = next
	}
	fmt.Println("t1:", flow["t1"], "t2:", flow["t2"], "substation:", flow["substation"])
	// Output:
	// t1: 12 t2: 6 substation: 18
}
