package devices

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/registry"
)

// million are payloads of descriptions as a town of a million devices may have them.
func million(b *testing.B) [][]byte {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	types := []string{"thermometer", "meter", "valve", "gateway", "lock"}
	payloads := make([][]byte, 1_000_000)
	for i := range payloads {
		building := i / 200
		d := &registry.Description{
			Name:  fmt.Sprintf("oulu/b%d/t%d", building, i),
			Type:  types[i%len(types)],
			Group: fmt.Sprintf("oulu/building-%d/floor-%d", building, i/20%10),
			Place: &registry.Place{Lat: 64.5 + r.Float64(), Lon: 25 + r.Float64(),
				Alt: float64(3 * (i / 20 % 10)), HasAlt: true},
			Attributes: map[string]registry.Value{
				"floor": registry.Number(float64(i / 20 % 10)),
				"owner": registry.Text(fmt.Sprintf("owner %d", i%997)),
				"wired": registry.Bool(i%3 == 0)},
		}
		var err error
		if payloads[i], err = registry.Append(nil, d); err != nil {
			b.Fatal(err)
		}
	}
	return payloads
}

// BenchmarkMillion builds the index of a million devices from their payloads, then selects about
// 1,000 of them by type and rectangle.
func BenchmarkMillion(b *testing.B) {
	payloads := million(b)
	var x Index
	load := func() {
		var builder Builder
		for i, p := range payloads {
			d, err := registry.Parse(p)
			if err != nil {
				b.Fatal(err)
			}
			builder.Add(1<<40+int64(i), d)
		}
		x.Load(&builder)
	}
	load()
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			load()
		}
		b.ReportMetric(float64(x.Bytes())/float64(x.Len()), "B/device")
	})
	for _, text := range []string{
		"type=thermometer, within(65,25.4,65.05,25.5)",
		"type=thermometer, within(65,25.4,65.1,25.5), alt=0..20, owner!=x, !retired",
		"type=thermometer, near(65,25.4,4.5km)",
		"group^=oulu/building-7/", "floor=3", "name=oulu/b7/t1407",
	} {
		s, err := registry.ParseSelector(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			var found []int64
			for b.Loop() {
				found = x.Select(s, found[:0])
			}
			b.ReportMetric(float64(len(found)), "devices")
		})
	}
}
