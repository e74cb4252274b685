package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// The energy of an owner's meters, before and after one of them is sold: readings hold no copy of
// the owner, and a sale is one record.
func Example_denormalisation() {
	const energy = 1
	d := open()
	defer d.close()
	ids := d.describe(
		registry.Description{Name: "m1", Type: "meter", Attributes: attributes("owner", "acme")},
		registry.Description{Name: "m2", Type: "meter", Attributes: attributes("owner", "acme")},
		registry.Description{Name: "m3", Type: "meter", Attributes: attributes("owner", "beta")})
	var b record.Batch
	for hour := range 24 {
		for _, mid := range ids {
			b.Append(key(mid, energy, time.Duration(hour)*time.Hour), number(0.5))
		}
	}
	known := d.put(&b)

	acme := selected("type=meter, owner=acme", energy)
	fmt.Println("acme, kWh:", d.groups(acme, "stats")[0].value["sum"])

	d.describeFrom(day().AddDate(0, 0, 1), registry.Description{Name: "m2", Type: "meter",
		Attributes: attributes("owner", "beta")})
	fmt.Println("after the sale:", d.groups(acme, "stats")[0].value["sum"])

	acme.View, acme.AsOfAcqNs = record.ViewAsOf, known
	fmt.Println("as known before:", d.groups(acme, "stats")[0].value["sum"])
	// Output:
	// acme, kWh: 24
	// after the sale: 12
	// as known before: 24
}
