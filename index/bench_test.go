package index

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

func benchRows(n int) *record.Batch {
	rng := rand.New(rand.NewPCG(1, 1))
	s := shape{cids: 4, mids: int64(max(1, n/40)), moids: 5, capSpanNs: 1 << 48, batch: 10_000}
	return s.rows(rng, n)
}

func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

// BenchmarkClusterRows clusters rows of all kinds, and those of devices that read ten quantities at
// the same instants.
func BenchmarkClusterRows(b *testing.B) {
	const devices, quantities = 100, 10
	aligned := new(record.Batch)
	for i := range 1 << 20 {
		series := i % (devices * quantities)
		aligned.AppendStamped(record.Key{CID: 1, MID: int64(series / quantities),
			MOID: int32(series % quantities), CapNs: int64(i/(devices*quantities)) * 10e9,
			AcqNs: int64(i)}, nil)
	}
	for name, rows := range map[string]*record.Batch{
		"all": benchRows(1 << 20), "aligned": aligned,
	} {
		b.Run(name, func(b *testing.B) {
			var l Layout
			c := NewClusterer(Options{})
			for b.Loop() {
				c.Cluster(rows, &l)
			}
			perRow(b, rows.Len())
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	rows := benchRows(1 << 20)
	l := clusterRows(rows, Options{})
	flags := make([]uint64, rows.Len()/64)
	offsets, sizes := make([]uint64, len(l.BlockEnds)), make([]uint32, len(l.BlockEnds))
	for b.Loop() {
		Build(rows, l, flags, offsets, sizes)
	}
	perRow(b, rows.Len())
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1 << 11, 1 << 18, 1 << 21} {
		rows := benchRows(n)
		s, _, _ := indexOf(rand.New(rand.NewPCG(1, 1)), rows, Options{BlockRows: 512})
		k := rows.Key(n / 2)
		for name, x := range map[string]record.Box{
			"device": {record.CID: {record.At(int64(k.CID))}, record.MID: {record.At(k.MID)},
				record.MOID: {record.At(int64(k.MOID))},
				record.Cap:  {{From: k.CapNs, To: k.CapNs + 1<<44}}},
			"moment": {record.Cap: {{From: k.CapNs, To: k.CapNs + 1<<40}}},
		} {
			b.Run(fmt.Sprintf("%s/blocks=%d", name, s.Blocks()), func(b *testing.B) {
				var p Plan
				b.ReportAllocs()
				for b.Loop() {
					s.Plan(&x, &p)
				}
			})
		}
	}
}

func BenchmarkHead(b *testing.B) {
	rows := benchRows(1 << 18)
	var batches []*record.Batch
	for from := 0; from < rows.Len(); from += 8192 {
		batches = append(batches, part(rows, from, from+8192))
	}
	b.Run("insert", func(b *testing.B) {
		for b.Loop() {
			h := NewHead(NewWatermarks())
			for _, batch := range batches {
				h.Insert(batch)
			}
		}
		perRow(b, rows.Len())
	})
	h := NewHead(NewWatermarks())
	h.Insert(rows)
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			err := h.Scan(&record.Box{}, record.Acq.Max(), false,
				func(*record.Batch, []uint64) error { return nil })
			if err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, rows.Len())
	})
}

// BenchmarkHeadGroups inserts into the heads of 16 groups with three replicas, which share devices.
func BenchmarkHeadGroups(b *testing.B) {
	const heads, batches, batch, devices, moids = 48, 200, 625, 3125, 5
	rng := rand.New(rand.NewPCG(1, 1))
	var all [batches]record.Batch
	for i := range batches * batch {
		d := rng.IntN(devices)
		all[i/batch].AppendStamped(record.Key{CID: int32(d % 4), MID: int64(d/256*4096 + d%256),
			MOID: int32(rng.IntN(moids)), CapNs: int64(i / devices), AcqNs: int64(i)},
			make([]byte, 16))
	}
	for b.Loop() {
		var into [heads]*Head
		for k := range into {
			into[k] = NewHead(NewWatermarks())
			into[k].Pin()
		}
		for i := range all {
			for _, h := range into {
				h.Insert(&all[i])
			}
		}
		for _, h := range into {
			h.Flagged() // with which all rows are in cells
			h.Unpin()
		}
	}
	perRow(b, heads*batches*batch)
}

// BenchmarkHeadBoxes scans the heads of 16 groups that share devices, of 550,000 rows each.
func BenchmarkHeadBoxes(b *testing.B) {
	const groups, slots, devices, quarter = 16, 44, 2500, 900e9
	var heads []*Head
	for g := range groups {
		h, acq := NewHead(NewWatermarks()), int64(1000)
		for slot := range slots {
			var rows record.Batch
			for i := range 5 * devices {
				d := i % devices
				key := record.Key{CID: int32(d % 4), MID: int64((d/256*groups+g)*256 + d%256),
					MOID: int32(i / devices), CapNs: int64(slot) * quarter, AcqNs: acq}
				rows.AppendStamped(key, make([]byte, 8))
				acq += 10
			}
			h.Insert(&rows)
		}
		heads = append(heads, h)
	}
	var box record.Box
	scan := func(name string) {
		b.Run(name, func(b *testing.B) {
			rows := 0
			for range b.N {
				for _, h := range heads {
					_ = h.Scan(&box, record.Acq.Max(), false,
						func(x *record.Batch, _ []uint64) error { rows += x.Len(); return nil })
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
		})
	}
	b.Run("count", func(b *testing.B) {
		counted := record.Box{record.CID: {record.At(2)},
			record.Cap: {{From: 10*quarter + 1, To: 28 * quarter}}}
		rows := 0
		for range b.N {
			for _, h := range heads {
				rows += h.Count(&counted, record.Acq.Max())
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
	})
	box[record.Cap] = record.RangeSet{{From: 20 * quarter, To: 20*quarter + 1}}
	scan("moment")
	box[record.MOID] = record.RangeSet{{From: 2, To: 3}}
	scan("quantity")
	box[record.Cap] = record.RangeSet{{From: 10 * quarter, To: 30 * quarter}}
	box[record.MID] = record.RangeSet{{From: 1000, To: 21000}}
	scan("devices")
}
