package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// A reading with several values is one record with declared fields, and devices of one tenant have
// whatever attributes their type has.
func Example_aggregates() {
	const weather = 1
	d := open()
	defer d.close()
	d.quantity(client.Quantity{MOID: weather, Name: "weather", Type: plugin.Struct,
		Fields: []client.QuantityField{{Name: "temperature", Type: plugin.F64},
			{Name: "humidity", Type: plugin.F64, Offset: 8},
			{Name: "state", Type: plugin.Text, Offset: 16}}})
	ids := d.describe(
		registry.Description{Name: "roof", Type: "station", Attributes: attributes("mast", "12.5")},
		registry.Description{Name: "van", Type: "logger", Attributes: attributes("plate", "OUL-7",
			"gps", "true")})
	var b record.Batch
	add := func(mid int64, hour int, temperature, humidity float64, state string) {
		payload := append(number(temperature), number(humidity)...)
		b.Append(key(mid, weather, time.Duration(hour)*time.Hour), append(payload, state...))
	}
	add(ids[0], 6, -4, 81, "ok")
	add(ids[0], 12, 2.5, 64, "ok")
	add(ids[0], 18, 55, 60, "error 7")
	add(ids[1], 12, 3.5, 59, "ok")
	d.put(&b)

	q := of(weather)
	q.Where = "temperature > 0 and humidity < 65 and state = ok"
	fmt.Println("above zero, dry and sound:", d.count(q))
	stats := d.groups(q, "stats", "offset", "8")[0]
	fmt.Println("mean humidity of these:", stats.value["mean"])
	fmt.Println("of stations with a mast of 10 m:", d.count(selected("mast>=10", weather)))
	fmt.Println("of loggers with GPS:", d.count(selected("gps, plate^=OUL", weather)))
	// Output:
	// above zero, dry and sound: 2
	// mean humidity of these: 61.5
	// of stations with a mast of 10 m: 3
	// of loggers with GPS: 1
}
