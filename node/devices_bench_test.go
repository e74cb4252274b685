package node

import (
	"fmt"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/registry"
)

// BenchmarkRegister creates and describes devices in batches of 10,000, as device import does: with
// a type, a group, a place and three attributes each.
func BenchmarkRegister(b *testing.B) {
	n, err := Open(b.Context(), Options{Dir: b.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = n.Close(b.Context()) }()
	c, err := client.Dial(b.Context(), n.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	const batch = 10_000
	devices := 0
	for b.Loop() {
		changes := make([]client.DeviceChange, batch)
		for i := range changes {
			changes[i] = newDeviceChange(devices + i)
		}
		if did, err := c.ChangeDevices(b.Context(), 1, changes); err != nil ||
			did.Described != batch || did.Created != batch {
			b.Fatalf("%+v, %v", did, err)
		}
		devices += batch
	}
	b.ReportMetric(float64(devices)/b.Elapsed().Seconds(), "devices/s")
}

func newDeviceChange(i int) client.DeviceChange {
	kind, group := "thermometer", fmt.Sprintf("oulu/building-%d/floor-%d", i/500, i%7)
	return client.DeviceChange{Name: fmt.Sprintf("site-%d/t%d", i/1000, i), FromNs: 1,
		Change: registry.Change{Type: &kind, Group: &group,
			Place: &registry.Place{Lat: 60 + float64(i%5000)/1000, Lon: 20 + float64(i%977)/100},
			Attributes: map[string]registry.Value{"floor": registry.Number(float64(i % 7)),
				"owner": registry.Text(fmt.Sprintf("owner-%d", i%50)),
				"wired": registry.Bool(i%2 == 0)}}}
}
