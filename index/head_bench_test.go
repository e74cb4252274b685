package index

import (
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// BenchmarkHeadWindows asks the heads of 16 groups that share devices, of 500,000 rows each, for
// rows of some time. Each device sends a quantity in each quarter of an hour, a few seconds off,
// and all do so in another order each time.
func BenchmarkHeadWindows(b *testing.B) {
	const groups, slots, devices, quarter, second = 16, 400, 1250, 900e9, 1e9
	rng := rand.New(rand.NewPCG(1, 1))
	var heads []*Head
	for g := range groups {
		h, acq := NewHead(NewWatermarks()), int64(1000)
		for slot := range slots {
			var rows record.Batch
			for _, d := range rng.Perm(devices) {
				rows.AppendStamped(record.Key{CID: int32(d % 4), MOID: int32((d/4 + slot) % 5),
					MID:   int64((d/64*groups+g)*64 + d%64),
					CapNs: int64(slot)*quarter + rng.Int64N(5*second), AcqNs: acq}, make([]byte, 8))
				acq += 10
			}
			h.Insert(&rows)
		}
		heads = append(heads, h)
	}
	ask := func(name string, box record.Box, ask func(h *Head, box *record.Box) int) {
		b.Run(name, func(b *testing.B) {
			rows := 0
			for range b.N {
				for _, h := range heads {
					rows += ask(h, &box)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
		})
	}
	count := func(h *Head, box *record.Box) int { return h.Count(box, record.Acq.Max()) }
	scan := func(h *Head, box *record.Box) (rows int) {
		_ = h.Scan(box, record.Acq.Max(), false,
			func(x *record.Batch, _ []uint64) error { rows += x.Len(); return nil })
		return rows
	}
	moment := record.RangeSet{{From: 20 * quarter, To: 21 * quarter}}
	ask("count", record.Box{record.CID: {record.At(2)},
		record.Cap: {{From: 40*quarter + second, To: 200*quarter + second}}}, count)
	ask("moment", record.Box{record.Cap: moment}, scan)
	ask("quantity", record.Box{record.Cap: moment, record.MOID: {record.At(2)}}, scan)
	ask("devices", record.Box{record.MID: {{From: 1000, To: 9000}}, record.MOID: {record.At(2)},
		record.Cap: {{From: 100 * quarter, To: 200 * quarter}}}, scan)
}
