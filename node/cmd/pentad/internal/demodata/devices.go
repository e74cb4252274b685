package demodata

import (
	"fmt"

	"github.com/pentad-db/pentad/sdk/registry"
)

const (
	metersPerBuilding = 25
	metersPerFloor    = 5
	floorHeight       = 3.0 // metres
)

// Name returns the name of a meter, which it has in its tenant.
func Name(meter int) string { return fmt.Sprintf("meter-%d", meter) }

// Town returns the name of a tenant.
func Town(cid int32) string { return fmt.Sprintf("town-%d", cid) }

// Building returns the number of the building in which a meter is; buildings count from 1.
func Building(meter int) int { return 1 + (meter-1)/metersPerBuilding }

// Device describes a meter: the group says its town, building and floor; the place is that of the
// building, as high as the floor.
func Device(meter int) registry.Description {
	building, floor := Building(meter), (meter-1)%metersPerBuilding/metersPerFloor
	return registry.Description{Name: Name(meter), Type: "meter",
		Group: fmt.Sprintf("%s/building-%d/floor-%d", Town(CID(meter)), building, floor),
		Place: &registry.Place{Lat: round(64.9+0.001*float64(mix(uint64(building))%300), 3),
			Lon: round(25.3+0.001*float64(mix(uint64(building)<<20)%400), 3),
			Alt: floorHeight * float64(floor), HasAlt: true},
		Attributes: map[string]registry.Value{"floor": registry.Number(float64(floor)),
			"building": registry.Number(float64(building))}}
}

// Tenants returns the meters of each tenant, in order.
func (p Plan) Tenants() (all [][]int) {
	for meter := 1; meter <= p.Meters; meter++ {
		if (meter-1)%metersPerCID == 0 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], meter)
	}
	return all
}
