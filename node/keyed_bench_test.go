package node

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// BenchmarkGroupByKey groups 2 million readings of some devices by parts of the key, and by what
// the devices have: 5 types, 100 buildings, an owner for each device. Each group also comes alone,
// with the readings of one device, which shows what it takes to find the values.
func BenchmarkGroupByKey(b *testing.B) {
	for _, devices := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("devices=%d", devices), func(b *testing.B) {
			n, err := Open(b.Context(), Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = n.Close(b.Context()) }()
			fillKeyed(b, n, devices)
			for _, by := range []record.GroupBy{{MID: true}, {MOID: true}, {Key: "type"},
				{Key: "group[2]"}, {Key: "owner"}} {
				name := by.Key
				if by.MID {
					name = "mid"
				} else if by.MOID {
					name = "moid"
				}
				b.Run(name, func(b *testing.B) { benchmarkKeyed(b, n, by, 2_000_000) })
				b.Run("one/"+name, func(b *testing.B) {
					benchmarkKeyed(b, n, by, 2_000_000/uint64(devices))
				})
			}
		})
	}
}

func benchmarkKeyed(b *testing.B, n *Node, by record.GroupBy, rows uint64) {
	b.ReportAllocs()
	for b.Loop() {
		q := &record.Query{GroupBy: by, View: record.ViewLatest,
			Aggregate: record.PluginCall{Name: "stats"},
			Box:       record.Box{record.CID: {record.At(1)}}}
		if rows < 2_000_000 {
			q.Box[record.MID] = record.RangeSet{record.At(78)}
		}
		groups, _, err := n.Aggregate(b.Context(), q)
		found := uint64(0)
		for i := range groups {
			found += groups[i].Records
		}
		if err != nil || found != rows {
			b.Fatal(found, err)
		}
	}
}

func fillKeyed(b *testing.B, n *Node, devices int) {
	rng := rand.New(rand.NewPCG(1, 1))
	put := func(rows *record.Batch) {
		if _, err := n.Put(b.Context(), rows, store.WriterSeq{}); err != nil {
			b.Fatal(err)
		}
	}
	var described record.Batch
	for mid := range devices {
		payload, err := registry.Append(nil, &registry.Description{
			Type:  []string{"thermometer", "meter", "valve", "gateway", "lock"}[rng.IntN(5)],
			Group: fmt.Sprintf("oulu/b%d/f%d", rng.IntN(100), rng.IntN(5)),
			Attributes: map[string]registry.Value{
				"owner": registry.Text(fmt.Sprint("owner-", mid))}})
		if err != nil {
			b.Fatal(err)
		}
		described.Append(record.Key{CID: 1, MID: int64(mid), MOID: record.DescriptionMOID}, payload)
		if described.Len() == 10_000 || mid == devices-1 {
			put(&described)
			described.Reset()
		}
	}
	const rows = 2_000_000
	var b2 record.Batch
	for i := range rows {
		b2.Append(record.Key{CID: 1, MID: int64(i % devices), MOID: int32(i / devices % 2),
			CapNs: int64(i/devices) * 1e9}, f64(rng.Float64()))
		if b2.Len() == 50_000 || i == rows-1 {
			put(&b2)
			b2.Reset()
		}
	}
	if err := n.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
}
